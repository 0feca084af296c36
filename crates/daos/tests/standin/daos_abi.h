/* The part of DAOS's C interface that femtobarn uses, in its own words: for the stand-in and for the bare loop. */

#ifndef FEMTOBARN_DAOS_ABI_H
#define FEMTOBARN_DAOS_ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct { uint64_t cookie; } handle_t;
typedef struct { uint64_t lo, hi; } oid_t;
typedef struct { void *buf; size_t buf_len, len; } iov_t;
typedef struct { uint32_t nr, nr_out; iov_t *iovs; } sgl_t;
typedef struct {
    iov_t name;
    unsigned type;
    uint64_t size, flags;
    unsigned nr;
    void *recxs;
} iod_t;
typedef struct event { int error; uint64_t space[20], debug; } event_t;
typedef struct { uint64_t len; uint32_t type; } key_desc_t;
typedef struct { uint16_t type, shard; uint32_t flags; uint64_t sub; uint8_t buf[104]; } anchor_t;
typedef struct { uint8_t uuid[16]; uint32_t n_targets, more[43]; } pool_info_t;
typedef struct { uint8_t uuid[16]; uint64_t more[4]; } cont_info_t;

_Static_assert(sizeof(iov_t) == 24 && sizeof(sgl_t) == 16 && sizeof(iod_t) == 64, "memory of values");
_Static_assert(sizeof(event_t) == 176 && sizeof(key_desc_t) == 16 && sizeof(anchor_t) == 120, "events and lists");
_Static_assert(sizeof(pool_info_t) == 192 && sizeof(cont_info_t) == 48, "what is known of pools and containers");

enum {
    NO_PERM = 1001, NO_HDL = 1002, INVAL = 1003, EXIST = 1004, NONEXIST = 1005, NOSPACE = 1007, NOMEM = 1009,
    BUSY = 1012, UNINIT = 1015, REC2BIG = 2013,
};
enum { READ_ONLY = 1, READ_WRITE = 2, IOD_SINGLE = 1, MULTI_UINT64 = 4 };
enum { COND_DKEY_FETCH = 8, COND_AKEY_INSERT = 16, COND_AKEY_FETCH = 64 };
enum { ANCHOR_EOF = 3 };

#endif
