/* tune.c - options of a data connection. */
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "host/addr.h"
#include "transport/tcp/tune.h"

/*
 * Within a host there is no delay to cover, and megabytes in socket buffers have left the cache
 * before they are read: a third of the bandwidth. The kernel doubles this; half a megabyte of
 * replies fit.
 */
enum { LOCAL_SEND_BUFFER = 384 * 1024 };

static bool is_same_host(int fd)
{
	struct te_addr own = { .len = sizeof(own.ss) }, peer = { .len = sizeof(peer.ss) };

	if (getsockname(fd, (struct sockaddr *)&own.ss, &own.len) ||
	    getpeername(fd, (struct sockaddr *)&peer.ss, &peer.len))
		return false;
	te_addr_set_port(&own, 0);
	te_addr_set_port(&peer, 0);
	return own.len == peer.len && !memcmp(&own.ss, &peer.ss, own.len);
}

void te_tcp_tune(int fd)
{
	int size = LOCAL_SEND_BUFFER;

	/* Elsewhere the kernel finds the size: a fixed one would be too small for a long way. */
	if (is_same_host(fd))
		setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
}
