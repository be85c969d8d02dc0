/* desc_file.c - segments of files: where a file is on this host. */
#include <stdlib.h>
#include <string.h>

#include "te_segment.h"

/* Length of NAME in "NAME:PORT", "[ADDRESS]:PORT"; all of it where there is no port. */
static size_t without_port(const char *name)
{
	const char *colon = strrchr(name, ':');

	return colon && (strchr(name, ':') == colon || colon[-1] == ']') ? (size_t)(colon - name)
									 : strlen(name);
}

static const char *in_map(const struct te_desc_buffer *b, const char *name, size_t len)
{
	for (size_t i = 0; len && i < b->nmap; i++)
		if (!strncmp(b->map[i].host, name, len) && !b->map[i].host[len])
			return b->map[i].path;
	return NULL;
}

static bool is_named(const struct te_desc *d, const char *name, size_t len)
{
	const char *own = d->server_name ? d->server_name : d->name;

	return len && own && !strncmp(own, name, len) && !own[len];
}

const char *te_desc_file_here(const struct te_desc *d, const struct te_desc_buffer *b,
			      const char *server_name, const char *host_name)
{
	const struct {
		const char *name;
		size_t len;
	} names[] = {
		{ server_name, strlen(server_name) },
		{ server_name, without_port(server_name) },
		{ host_name, strlen(host_name) },
	};
	const char *path = NULL;

	for (size_t i = 0; !path && i < 3; i++)
		path = in_map(b, names[i].name, names[i].len);
	for (size_t i = 0; !path && i < 3; i++)
		if (is_named(d, names[i].name, names[i].len))
			path = b->file_path;
	return path;
}
