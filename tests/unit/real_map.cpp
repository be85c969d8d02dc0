// real_map.cpp - the order of a real std::unordered_map, for test_matrix.c to compare with.
#include <cstddef>
#include <string>
#include <unordered_map>

extern "C" void real_map_order(const char *const *keys, size_t n, size_t *order)
{
	std::unordered_map<std::string, size_t> map;

	for (size_t i = 0; i < n; i++)
		map[keys[i]] = i;
	for (const auto &entry : map)
		*order++ = entry.second;
}
