/* http_listen: /metrics, /healthz and /readyz, by libevent's evhttp on control's loop. Nothing else, GET and HEAD only. */
#pragma once

#include "base/err.h"
#include "conf/conf.h"

/* Listens, if http_listen says so; before control's loop runs. */
bool http_start(const struct conf *conf, struct err *err);
void http_stop(void); /* with the loop stopped */
