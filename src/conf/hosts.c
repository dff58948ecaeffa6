/* Lists of hosts: "10.0.0.1:5432, [::1]:5433, /run/postgresql, @abstract". */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "conf/comma_priv.h"
#include "conf/load_priv.h"

bool port_read(const char *text, int *out, struct err *err)
{
	int64_t n;

	if (!num_i64(text, &n) || n < 1 || n > 65535)
		return err_set(err, "22023", "port: \"%.32s\" is not in the range 1 to 65535", text);
	*out = (int)n;
	return true;
}

/* Where in "host:port" is the colon? NULL: there is no port. An IPv6 address needs its [ ] to have one. */
static char *port_colon(char *text)
{
	char *colon = strrchr(text, ':');

	if (!colon || (text[0] == '[' && colon[-1] != ']'))
		return NULL;
	return text[0] != '[' && strchr(text, ':') != colon ? NULL : colon;
}

/* Splits text, which it may write to. */
static bool host_read(char *text, int port, struct conf_host *out, struct err *err)
{
	char *colon = port_colon(text);
	size_t len;

	out->port = port;
	if (colon) {
		*colon = '\0';
		if (!port_read(colon + 1, &out->port, err))
			return false;
	}
	len = strlen(text);
	if (text[0] == '[' && len > 2 && text[len - 1] == ']') {
		text[len - 1] = '\0';
		text++;
	}
	if (!*text || *text == '[')
		return err_set(err, "22023", "a host of the list is not host, host:port or [address]:port");
	out->host = mem_str(text);
	return true;
}

bool hosts_read(const char *text, int port, struct conf_host **out, int *n, struct err *err)
{
	struct comma at = {text, 0, NULL};
	bool ok = true;

	*out = NULL;
	*n = 0;
	while (ok && comma_next(&at)) {
		char *one = mem_strn(at.p, at.len);

		*out = mem_grow(*out, (size_t)(*n + 1) * sizeof(**out));
		(*out)[*n] = (struct conf_host){0};
		ok = host_read(one, port, &(*out)[*n], err);
		++*n;
		mem_free(one);
	}
	if (ok && *n == 0)
		ok = err_set(err, "22023", "the list of hosts is empty");
	if (!ok) {
		hosts_free(out, *n);
		*n = 0;
	}
	return ok;
}

void hosts_free(struct conf_host **hosts, int n)
{
	for (int i = 0; i < n; i++)
		mem_free((*hosts)[i].host);
	mem_free(*hosts);
	*hosts = NULL;
}
