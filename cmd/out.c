/* out.c - text and JSON output of the commands. */
#include "out.h"

#include <stdlib.h>
#include <unistd.h>

void out_json(json_t *doc)
{
	size_t flags = JSON_REAL_PRECISION(12);

	flags |= isatty(fileno(stdout)) ? JSON_INDENT(2) : JSON_COMPACT;
	/* A failed write is found by cli_finish(). */
	json_dumpf(doc, stdout, flags);
	putchar('\n');
	json_decref(doc);
}

const char *out_bytes(double bytes, char *buf, size_t size)
{
	static const char *const units[] = { "B", "kB", "MB", "GB", "TB", "PB" };
	size_t u = 0;

	/* 999.5 would be rounded up to four digits. */
	while (bytes >= 999.5 && u + 1 < sizeof(units) / sizeof(*units)) {
		bytes /= 1000;
		u++;
	}
	if (u == 0 && bytes == (double)(long)bytes)
		snprintf(buf, size, "%.0f B", bytes);
	else
		snprintf(buf, size, "%.*f %s",
			 bytes < 9.995	 ? 2
			 : bytes < 99.95 ? 1
					 : 0,
			 bytes, units[u]);
	return buf;
}

bool out_is_terminal(FILE *f)
{
	const char *no_color = getenv("NO_COLOR");

	return isatty(fileno(f)) && !(no_color && *no_color);
}
