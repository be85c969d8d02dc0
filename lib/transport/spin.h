/*
 * spin.h - may this thread poll instead of sleeping?
 *
 * Threads that poll are counted over the process, and never more than half of the processors do, so
 * that polling does not take the time of those that work. Each polls only for MC_TE_SPIN_US after
 * something has moved: an idle process uses none.
 */
#ifndef TE_TRANSPORT_SPIN_H
#define TE_TRANSPORT_SPIN_H

#include <stdbool.h>

bool te_spin_begin(void);
void te_spin_end(void);

#endif
