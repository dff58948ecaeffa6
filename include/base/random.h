/* Random numbers from OpenSSL's generator; aborts if there are none. Any thread. */
#pragma once

#include <stddef.h>
#include <stdint.h>

void random_bytes(void *out, size_t len);
uint64_t random_u64(void);
uint32_t random_below(uint32_t limit); /* even over 0 .. limit-1; limit > 0 */
