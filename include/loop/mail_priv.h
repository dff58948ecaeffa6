/* A loop's mailbox, for loop.c. */
#pragma once

#include "loop/mail.h"

struct mailbox *mailbox_new(struct loop *l); /* aborts when the system has no more descriptors */
void mailbox_read(struct mailbox *box);      /* what is there now, in the loop's thread */
void mailbox_free(struct mailbox **box);     /* it is empty */
bool mailbox_is_empty(struct mailbox *box);
