/* owner.c - is the owner of a segment there? */
#include "owner.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { REACH_MS = 500 };
static const double patience_s = 1;

static bool connects(const struct addrinfo *a)
{
	int fd =
		socket(a->ai_family, a->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, a->ai_protocol);
	struct pollfd p = { .fd = fd, .events = POLLOUT };
	socklen_t len = sizeof(int);
	int error = EIO;

	if (fd < 0)
		return false;
	if (connect(fd, a->ai_addr, a->ai_addrlen) == 0)
		error = 0;
	else if (errno == EINPROGRESS && poll(&p, 1, REACH_MS) == 1)
		getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len);
	close(fd);
	return error == 0;
}

/* Nobody takes a connection at that address, or there is no such address. */
static bool is_deserted(const struct te_rpc_meta *at)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *list = NULL;
	bool deserted = true;
	char port[16];
	int rc;

	snprintf(port, sizeof(port), "%u", at->port);
	rc = getaddrinfo(at->host, port, &hints, &list);
	/* A name server that is away now says nothing about the owner. */
	if (rc)
		return rc == EAI_NONAME;
	for (const struct addrinfo *a = list; a && deserted; a = a->ai_next)
		deserted = !connects(a);
	freeaddrinfo(list);
	return deserted;
}

/*
 * Dead is only whose address is deserted, or somebody else's by now. Who takes a connection and
 * does not answer may be stopped, busy (Mooncake's daemon serves one client at a time), or from
 * before v0.3.10.post2, which knows no probe.
 */
enum owner_state owner_probe(const struct te_conf *conf, const char *name,
			     const struct te_rpc_meta *at, char *reason, size_t size)
{
	struct te_conf patient = *conf;
	struct te_err err = { 0 };
	char found[256] = "";
	int rc;

	if (patient.transfer_timeout_s > patience_s)
		patient.transfer_timeout_s = patience_s;
	rc = te_probe_address(&patient, at->host, at->port, found, &err);
	if (!rc && *found && strcmp(found, name) != 0) {
		snprintf(reason, size, "%s:%u belongs to '%s' now", at->host, at->port, found);
		return OWNER_DEAD;
	}
	snprintf(reason, size, "%s", rc ? err.msg : "");
	if (!rc)
		return OWNER_ALIVE;
	return rc == -ECONNREFUSED || is_deserted(at) ? OWNER_DEAD : OWNER_UNCLEAR;
}
