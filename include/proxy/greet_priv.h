/* The inside of a login, for greet.c (the steps), greet_auth.c (the methods), greet_params.c (the startup parameters) and
 * cancel.c. Nothing in here belongs to a loop but `go`, which is at rest while the client travels. */
#pragma once

#include "auth/scram.h"
#include "base/secret.h"
#include "cluster/setup.h"
#include "proxy/client.h"
#include "wire/startup.h"

/* What a login waits for, or does next: rows of the table in greet.c. */
enum greet_step {
	STEP_PACKET,   /* the first packet */
	STEP_SECURE,   /* the TLS handshake */
	STEP_ADMIT,    /* is it well formed, which entry, which org, is there room */
	STEP_HOME,     /* the journey to the loop it belongs to */
	STEP_SETTINGS, /* its startup parameters, there */
	STEP_SECRET,   /* what its user's password is checked against */
	STEP_ASK,      /* the request for the password */
	STEP_ANSWER,   /* ... and what the client says to it */
	STEP_ENTER,    /* proven: what it may be told now, and in */
	STEP_CANCEL,   /* it is a cancel request, see proxy/cancel */
	GREET_STEPS,
};

/* What a step says. */
enum greeting {
	GREETING_NEXT, /* go on with g->step */
	GREETING_MORE, /* the same step again, when there are more bytes */
	GREETING_WAIT, /* an event will go on */
	GREETING_GONE, /* in, refused or under way: the client must not be touched */
};

/* What the client was asked for. */
enum asked { ASKED_NOTHING, ASKED_CLEAR, ASKED_MD5, ASKED_SASL, ASKED_SASL_FIRST, ASKED_SASL_FINAL };

struct cancel;

struct greet {
	struct client *client;          /* borrows: it owns us */
	enum greet_step step;
	struct later go;                /* what must not be done from within the stream's own call */

	struct setup *setup;            /* ref: the configuration that this login goes by, whatever is reloaded meanwhile */
	struct buf packet;              /* owns: the startup packet, or a cancel request's key */
	struct startup *startup;        /* owns; borrows packet; NULL until it is there */
	char *application_name;         /* owns; as asked for, uncut; NULL: not asked for */
	char *said_user;                /* owns; the user's name as the client gave it, where an org was split off (user_suffix) */
	const char *user_suffix;        /* borrows said_user; NULL: none */
	const struct conf_entry *entry; /* borrows setup's, or made; NULL: the console, or no such database */
	struct conf_entry *made;        /* owns: entry, when it came of the * line */
	struct lookup *lookup;          /* owns, while auth_query is asked */
	struct cancel *cancel;          /* owns, while a cancel request runs; outlives us when it must */
	struct buf answer;              /* owns: goes out with the next message */

	struct gate_queue *queue;       /* borrows: where it waits at the worker's gate; NULL: it does not */
	struct list gate_link;
	bool may_pass;                  /* its turn has come there */

	bool direct;                    /* TLS without an SSLRequest */
	bool asked_ssl, asked_gss;
	bool console;
	bool peer_is_owner;             /* the console, over a Unix socket, by our own account */
	bool proven;                    /* the client is who it says it is */
	char org_id[ORG_ID_MOST + 1];
	struct err refusal;             /* what it will be told once it is proven; sqlstate "": nothing */

	enum asked asked;
	bool known;                     /* there is such a user; the rest is empty when there is not */
	bool looked_up;                 /* ... and auth_query knew it */
	bool real_verifier;             /* secret is a SCRAM verifier: what the proof reveals is worth keeping */
	bool cb_offered, cb_chosen;     /* channel binding */
	uint8_t salt[4];
	struct secret secret;           /* what is stored */
	struct secret clear;            /* what the client sent in clear */
	struct scram_server *scram;     /* owns */
	struct scram_keys keys;
};

static inline void span_take(struct span *s, size_t n)
{
	s->p += n;
	s->len -= n;
}

/* Ends the login. The client is told err (NULL: nothing), the log reason (NULL: err's text). */
enum greeting greet_refuse(struct client *c, const struct err *err, const char *reason);
void greet_log(const struct client *c, enum log_level level, const char *text); /* rate limited: strangers cause it */

/* greet_params.c. Before the journey: refuses what we do not know, notes the application's name. */
bool greet_params_check(struct client *c, struct err *err);
void greet_params_apply(struct client *c); /* in the home loop: fills c->gucs */

/* greet_auth.c */
enum greeting greet_ask(struct client *c, struct span *in);
enum greeting greet_answer(struct client *c, struct span *in);

/* cancel.c: the client leaves while its cancel runs. */
void cancel_forget(struct cancel **x);
