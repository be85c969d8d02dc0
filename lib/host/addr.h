/* addr.h - host names, ports and addresses: parsing, resolving, choosing our own. */
#ifndef TE_HOST_ADDR_H
#define TE_HOST_ADDR_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

struct te_conf;
struct te_err;

struct te_addr {
	struct sockaddr_storage ss;
	socklen_t len;
};

enum { TE_ADDR_TEXT = 96 };

/*
 * "[v6]:port", "[v6]", bare v6 (no port), "v6%scope:port"? no: bracket those; else split at the last
 * ':' (INTEROP 1.1). host is cut to its buffer (size bytes). *port is untouched when there is none;
 * returns false on a port that is no number in 1..65535 or an empty host.
 */
bool te_addr_split(const char *text, char *host, size_t size, unsigned *port, bool *has_port);
/* Blocking name resolution, numeric addresses first without a look-up. Both families unless family
   says AF_INET/AF_INET6; fills at most max, returns the count or negative errno. */
int te_addr_resolve(const char *host, unsigned port, int family, struct te_addr *out, int max,
		    struct te_err *err);
/* "1.2.3.4:5" or "[::1]:5". */
const char *te_addr_text(const struct te_addr *a, char buf[TE_ADDR_TEXT]);
/* "host:port", bracketing IPv6 literals. malloc'ed. */
char *te_addr_join(const char *host, unsigned port);
unsigned te_addr_port(const struct te_addr *a);
void te_addr_set_port(struct te_addr *a, unsigned port);

/* The address that we publish: MC_TCP_BIND_ADDRESS, else the first UP and RUNNING non-loopback IPv4
   (IPv6 with use_ipv6) address, else loopback. */
int te_addr_own(const struct te_conf *conf, char *buf, size_t size, struct te_err *err);
/* gethostname(), NUL-terminated. */
void te_host_name(char *buf, size_t size);

#endif
