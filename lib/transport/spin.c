/* spin.c - how many threads of this process poll instead of sleeping. */
#include <stdatomic.h>
#include <unistd.h>

#include "base/util.h"
#include "transport/spin.h"

/* The processors are the process's, not an engine's, so their users are counted over it. */
static _Atomic int spinning, most;

bool te_spin_begin(void)
{
	int limit = atomic_load_explicit(&most, memory_order_relaxed);

	if (!limit) { /* sysconf() opens a file */
		limit = MAX(1, (int)sysconf(_SC_NPROCESSORS_ONLN) / 2);
		atomic_store_explicit(&most, limit, memory_order_relaxed);
	}
	if (atomic_fetch_add_explicit(&spinning, 1, memory_order_relaxed) < limit)
		return true;
	te_spin_end();
	return false;
}

void te_spin_end(void)
{
	atomic_fetch_sub_explicit(&spinning, 1, memory_order_relaxed);
}
