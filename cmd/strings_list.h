/* strings_list.h - a growing list of strings. */
#ifndef TE_CMD_STRINGS_LIST_H
#define TE_CMD_STRINGS_LIST_H

#include <stddef.h>

struct strings { /* zeroed before; strings_clear() */
	char **v;
	size_t n, cap;
};
/* Appends a copy. When memory is out the program ends with a message. */
void strings_add(struct strings *s, const char *text);
void strings_clear(struct strings *s);

#endif
