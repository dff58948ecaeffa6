/* The listening sockets of the process: a set of TCP ones per worker (SO_REUSEPORT), Unix ones on the first, or those that
 * systemd hands over. Bound before any thread runs; failing to listen is failing to start. */
#pragma once

#include "base/err.h"
#include "proxy/worker.h"

bool sockets_listen(const struct conf *conf, struct err *err);
