/* addr.c - host names, ports and addresses. */
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"
#include "host/addr.h"
#include "te_conf.h"
#include "te_err.h"

/* "::1", "fe80::1%eth0": an IPv6 literal with nothing behind it? */
static bool is_ipv6(const char *text)
{
	const char *scope = strchr(text, '%');
	char digits[INET6_ADDRSTRLEN];
	struct in6_addr a;
	size_t len = scope ? (size_t)(scope - text) : strlen(text);

	if (len >= sizeof(digits) || (scope && strchr(scope, ':')))
		return false;
	memcpy(digits, text, len);
	digits[len] = '\0';
	return inet_pton(AF_INET6, digits, &a) == 1;
}

bool te_addr_split(const char *text, char *host, size_t size, unsigned *port, bool *has_port)
{
	const char *end, *digits = NULL;
	int64_t n;

	if (*text == '[') {
		text++;
		end = strchr(text, ']');
		if (!end || (end[1] && end[1] != ':'))
			return false;
		digits = end[1] ? end + 2 : NULL;
	} else if (is_ipv6(text) || !strchr(text, ':')) {
		end = text + strlen(text);
	} else {
		end = strrchr(text, ':');
		digits = end + 1;
	}
	if (end == text)
		return false;
	if (digits) {
		if (strspn(digits, "0123456789") != strlen(digits) ||
		    !te_parse_i64(digits, 1, 65535, &n))
			return false;
		*port = (unsigned)n;
	}
	te_strlcpy(host, text, MIN(size, (size_t)(end - text) + 1));
	if (has_port)
		*has_port = digits != NULL;
	return true;
}

int te_addr_resolve(const char *host, unsigned port, int family, struct te_addr *out, int max,
		    struct te_err *err)
{
	struct addrinfo hints = { .ai_family = family,
				  .ai_socktype = SOCK_STREAM,
				  .ai_flags = AI_NUMERICHOST },
			*list;
	int rc, n = 0;

	rc = getaddrinfo(host, NULL, &hints, &list);
	if (rc == EAI_NONAME) {
		hints.ai_flags = 0;
		rc = getaddrinfo(host, NULL, &hints, &list);
	}
	if (rc == EAI_SYSTEM)
		return te_fail(err, -errno, "cannot resolve '%s': %s", host, strerror(errno));
	if (rc)
		return te_fail(err, rc == EAI_MEMORY ? -ENOMEM : -EHOSTUNREACH,
			       "cannot resolve '%s': %s", host, gai_strerror(rc));
	for (struct addrinfo *a = list; a && n < max; a = a->ai_next) {
		if (a->ai_family != AF_INET && a->ai_family != AF_INET6)
			continue;
		memset(&out[n], 0, sizeof(out[n]));
		memcpy(&out[n].ss, a->ai_addr, a->ai_addrlen);
		out[n].len = a->ai_addrlen;
		te_addr_set_port(&out[n], port);
		n++;
	}
	freeaddrinfo(list);
	if (!n)
		return te_fail(err, -EHOSTUNREACH, "'%s' has no address", host);
	return n;
}

const char *te_addr_text(const struct te_addr *a, char buf[TE_ADDR_TEXT])
{
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&a->ss;
	struct sockaddr_in v4 = { .sin_family = AF_INET };
	const void *sa = &a->ss;
	socklen_t len = a->len;
	bool v6 = a->ss.ss_family == AF_INET6;
	char host[TE_ADDR_TEXT - 8];

	/* What a dual-stack listener calls an IPv4 client. */
	if (v6 && IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr)) {
		memcpy(&v4.sin_addr, &in6->sin6_addr.s6_addr[12], sizeof(v4.sin_addr));
		sa = &v4;
		len = sizeof(v4);
		v6 = false;
	}
	if (getnameinfo(sa, len, host, sizeof(host), NULL, 0, NI_NUMERICHOST))
		te_strlcpy(host, "?", sizeof(host));
	snprintf(buf, TE_ADDR_TEXT, v6 ? "[%s]:%u" : "%s:%u", host, te_addr_port(a));
	return buf;
}

char *te_addr_join(const char *host, unsigned port)
{
	return te_asprintf(strchr(host, ':') && *host != '[' ? "[%s]:%u" : "%s:%u", host, port);
}

unsigned te_addr_port(const struct te_addr *a)
{
	return a->ss.ss_family == AF_INET6 ? ntohs(((const struct sockaddr_in6 *)&a->ss)->sin6_port)
					   : ntohs(((const struct sockaddr_in *)&a->ss)->sin_port);
}

void te_addr_set_port(struct te_addr *a, unsigned port)
{
	if (a->ss.ss_family == AF_INET6)
		((struct sockaddr_in6 *)&a->ss)->sin6_port = htons((uint16_t)port);
	else
		((struct sockaddr_in *)&a->ss)->sin_port = htons((uint16_t)port);
}

static bool is_any(const char *address)
{
	struct te_addr a;
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&a.ss;
	const struct sockaddr_in *in = (const struct sockaddr_in *)&a.ss;

	if (te_addr_resolve(address, 0, AF_UNSPEC, &a, 1, NULL) < 1)
		return false;
	return a.ss.ss_family == AF_INET6 ? IN6_IS_ADDR_UNSPECIFIED(&in6->sin6_addr)
					  : in->sin_addr.s_addr == htonl(INADDR_ANY);
}

/* Link-local IPv6 means nothing to others without a scope of theirs. */
static bool usable(const struct ifaddrs *i, int family)
{
	const unsigned up = IFF_UP | IFF_RUNNING;

	if (!i->ifa_addr || i->ifa_addr->sa_family != family ||
	    (i->ifa_flags & (up | IFF_LOOPBACK)) != up)
		return false;
	return family == AF_INET ||
	       !IN6_IS_ADDR_LINKLOCAL(&((const struct sockaddr_in6 *)i->ifa_addr)->sin6_addr);
}

int te_addr_own(const struct te_conf *conf, char *buf, size_t size, struct te_err *err)
{
	int family = conf->use_ipv6 ? AF_INET6 : AF_INET;
	struct ifaddrs *list, *i;

	if (*conf->tcp_bind_address && !is_any(conf->tcp_bind_address)) {
		te_strlcpy(buf, conf->tcp_bind_address, size);
		return 0;
	}
	if (getifaddrs(&list))
		return te_fail(err, -errno, "cannot list network interfaces: %s", strerror(errno));
	for (i = list; i && !usable(i, family); i = i->ifa_next)
		;
	if (!i || getnameinfo(i->ifa_addr,
			      family == AF_INET ? sizeof(struct sockaddr_in)
						: sizeof(struct sockaddr_in6),
			      buf, (socklen_t)size, NULL, 0, NI_NUMERICHOST))
		te_strlcpy(buf, family == AF_INET ? "127.0.0.1" : "::1", size);
	freeifaddrs(list);
	return 0;
}

void te_host_name(char *buf, size_t size)
{
	if (gethostname(buf, size))
		te_strlcpy(buf, "localhost", size);
	buf[size - 1] = '\0';
}
