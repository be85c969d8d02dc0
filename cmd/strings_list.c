/* strings_list.c - a growing list of strings. */
#include "strings_list.h"

#include <stdlib.h>
#include <string.h>

#include "cli.h"

void strings_add(struct strings *s, const char *text)
{
	char *copy = strdup(text);

	if (s->n == s->cap) {
		s->cap = s->cap ? 2 * s->cap : 64;
		s->v = reallocarray(s->v, s->cap, sizeof(*s->v));
	}
	if (!copy || !s->v)
		exit(cli_fail(CLI_FAIL, "out of memory"));
	s->v[s->n++] = copy;
}

void strings_clear(struct strings *s)
{
	for (size_t i = 0; i < s->n; i++)
		free(s->v[i]);
	free(s->v);
	*s = (struct strings){ 0 };
}
