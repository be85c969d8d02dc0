/*
 * forge.c - sends one handshake frame that nobody vouches for, and prints what comes back.
 *
 * forge PORT TYPE [ANNOUNCED]: the body is standard input, the frame's length what it is, or what
 * was ANNOUNCED. Prints the body of the reply, or "closed"; "silence" after 8 s without either is a
 * failure, status 1.
 */
#include <arpa/inet.h>
#include <endian.h>
#include <inttypes.h>
#include <sys/socket.h>

#include "prog.h"

enum { HEAD = 9, ROOM = 4 << 20 };

static int reach(unsigned port)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
	struct timeval wait = { .tv_sec = 8 };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (fd < 0 || connect(fd, (struct sockaddr *)&at, sizeof(at)))
		die("connect", NULL);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait));
	return fd;
}

/* The peer may close before it has read all: that is its answer. */
static void say(int fd, const char *p, size_t len)
{
	while (len) {
		ssize_t n = send(fd, p, len, MSG_NOSIGNAL);

		if (n <= 0)
			return;
		p += n;
		len -= (size_t)n;
	}
}

int main(int argc, char **argv)
{
	char *buf = malloc(ROOM + HEAD);
	uint64_t length;
	size_t len = 0;
	ssize_t n;
	int fd;

	if (argc < 3 || !buf)
		return 2;
	len = fread(buf + HEAD, 1, ROOM, stdin);
	length = htole64(argc > 3 ? strtoull(argv[3], NULL, 0) : len + 1);
	memcpy(buf, &length, sizeof(length));
	buf[HEAD - 1] = (char)strtol(argv[2], NULL, 0);
	fd = reach((unsigned)strtoul(argv[1], NULL, 0));
	say(fd, buf, len + HEAD);
	for (len = 0; (n = recv(fd, buf + len, ROOM - len, 0)) > 0;)
		len += (size_t)n;
	if (len > HEAD)
		printf("%.*s\n", (int)(len - HEAD), buf + HEAD);
	else if (n == 0 || errno == ECONNRESET)
		printf("closed\n");
	else
		printf("silence\n");
	free(buf);
	close(fd);
	return len <= HEAD && n < 0 && errno != ECONNRESET;
}
