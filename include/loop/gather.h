/* A question to many loops: each runs ask() in its own thread and answers by part_done(), at
 * once or later (a PAUSE answers when the last server is gone). When the last part is in,
 * done() runs in the asking loop. Used by SHOW (each worker renders its own rows), by commands
 * and by reload.
 *
 *   struct gather owned by the asker's `arg`; parts are given by index, in the order of loops.
 *   An asker that goes away calls gather_forget: done() is then called with g->forgotten set, so
 *   that the memory is freed in one place. */
#pragma once

#include "base/buf.h"
#include "loop/mail.h"

struct gather;

struct part {
	struct mail mail;
	struct gather *gather; /* borrows */
	struct loop *loop;     /* whose part it is */
	struct buf rows;       /* owns: what the loop has to say */
	int64_t number;        /* or a number */
	void *hold;            /* for a part that finishes late: the loop's own note; loop's thread only */
};

struct gather {
	struct loop *asker;
	void (*ask)(struct part *p);  /* in p->loop's thread; part_done must be called once, then or later */
	void (*done)(struct gather *g); /* in asker's thread; frees with gather_free */
	void *arg;                    /* borrows: the question; read only while parts run */
	bool forgotten;
	int n_parts;
	int n_open; /* asker's thread only */
	struct part *parts; /* owns */
};

struct gather *gather_start(struct loop *asker, struct loop **loops, int n_loops, void (*ask)(struct part *), void (*done)(struct gather *), void *arg);
void part_done(struct part *p); /* in p->loop's thread */
void gather_forget(struct gather *g); /* asker's thread */
void gather_free(struct gather **g);
