/* verb.c - finding a verb, and what it takes. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "verb.h"

/* "get, put, del" */
static void list_names(const struct verb *verbs, size_t n, char *to, size_t size)
{
	size_t len = 0;

	*to = '\0';
	for (size_t i = 0; i < n && len < size; i++)
		len += (size_t)snprintf(to + len, size - len, "%s%s", i ? ", " : "", verbs[i].name);
}

const struct verb *verb_find(const struct verb *verbs, size_t n, const char *name, size_t nargs)
{
	const struct verb *v = NULL;
	char names[256];

	list_names(verbs, n, names, sizeof(names));
	if (!name)
		cli_usage(NULL, "no verb given (%s)", names);
	for (size_t i = 0; i < n && !v; i++)
		if (strcmp(verbs[i].name, name) == 0)
			v = &verbs[i];
	if (!v)
		cli_usage(NULL, "unknown verb '%s' (%s)", name, names);
	if (nargs < v->min || nargs > v->max)
		cli_usage(NULL, "usage: %s %s%s%s", program_invocation_short_name, v->name,
			  *v->args ? " " : "", v->args);
	return v;
}

void verb_takes(const struct verb *v, bool given, unsigned who, const char *option)
{
	if (given && !(v->takes & who))
		cli_usage(NULL, "'%s' does not take --%s", v->name, option);
}
