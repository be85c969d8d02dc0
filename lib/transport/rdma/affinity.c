/* affinity.c - reads the rules of MC_NIC_PEER_AFFINITY. There are few of them, and plans are seldom
 * made. */
#include "transport/rdma/affinity.h"

#include <string.h>

/* "cuda:0", "musa:1", ...: whatever has a number and is no host memory. */
static bool is_gpu(const char *location)
{
	return location && strchr(location, ':') && strncmp(location, "cpu:", 4) != 0 &&
	       strncmp(location, "segments:", 9) != 0;
}

/* Is [s, s+len) that word, blanks around it aside? */
static bool is_word(const char *s, size_t len, const char *word)
{
	while (len && *s == ' ')
		s++, len--;
	while (len && s[len - 1] == ' ')
		len--;
	return strlen(word) == len && strncmp(s, word, len) == 0;
}

/* Of "A,B,C" up to a ';' or the end. */
static bool lists(const char *list, const char *nic)
{
	for (;;) {
		size_t len = strcspn(list, ",;");

		if (is_word(list, len, nic))
			return true;
		if (list[len] != ',')
			return false;
		list += len + 1;
	}
}

bool te_affinity_excludes(const char *rules, const char *location, const char *local,
			  const char *remote)
{
	bool ruled = false;

	if (!is_gpu(location))
		return false;
	while (*rules) {
		size_t rule = strcspn(rules, ";"), name = strcspn(rules, "=;");

		if (rules[name] == '=' && is_word(rules, name, local)) {
			if (lists(rules + name + 1, remote))
				return false;
			ruled = true;
		}
		rules += rule + (rules[rule] == ';');
	}
	return ruled;
}
