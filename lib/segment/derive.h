/* derive.h - the order in which a libstdc++ hash map gives back its keys (INTEROP 1.6). */
#ifndef TE_SEGMENT_DERIVE_H
#define TE_SEGMENT_DERIVE_H

#include <stddef.h>

/*
 * Real readers number the NICs of a matrix by iterating a std::unordered_map<std::string, ...> that they filled in
 * byte-sorted order. order[i] becomes the index of the key that comes at place i; keys are distinct and given in the
 * order of filling. -ENOMEM; -EOVERFLOW above 10273 keys.
 */
int te_derive_order(const char *const *keys, size_t n, size_t *order);

#endif
