/* The floor of reading: the least that any reader of these pages has to do.
 *
 * Every page is decompressed by the bare library into one small buffer, which stays in the processor's cache, and
 * its bytes are copied to their place in memory that was allocated for this run and that nobody has touched before.
 * No checksums, no unsplitting, no offsets, no reading: the file is mapped and all of it is in memory beforehand.
 *
 * The libraries' functions are declared here, so that their headers are not needed: their signatures are part of
 * stable ABIs.
 */
#define _GNU_SOURCE
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

typedef struct ZSTD_DCtx_s ZSTD_DCtx;
ZSTD_DCtx *ZSTD_createDCtx(void);
size_t ZSTD_freeDCtx(ZSTD_DCtx *);
size_t ZSTD_decompressDCtx(ZSTD_DCtx *, void *, size_t, const void *, size_t);
const char *ZSTD_versionString(void);
int LZ4_decompress_safe(const char *, char *, int, int);
const char *LZ4_versionString(void);

const char *floor_zstd_version(void) { return ZSTD_versionString(); }
const char *floor_lz4_version(void) { return LZ4_versionString(); }

enum { HEADER = 9, LZ4_CHECKSUM = 8 };

/* What floor_run returns in place of 0, beside the number of the page that failed, counted from 1. */
enum { NO_MEMORY = -1 };

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static size_t three_bytes(const uint8_t *p) { return p[0] | (size_t)p[1] << 8 | (size_t)p[2] << 16; }

/* Decompresses ROOT's records, mostly a single one, until `size` bytes are there; 0 if something does not fit. */
static int decompress(ZSTD_DCtx *context, const uint8_t *src, size_t stored, uint8_t *dst, size_t size) {
    while (size > 0) {
        if (stored < HEADER) return 0;
        size_t compressed = three_bytes(src + 3), uncompressed = three_bytes(src + 6);
        if (compressed > stored - HEADER || uncompressed > size) return 0;
        const uint8_t *payload = src + HEADER;
        size_t found = 0;
        if (memcmp(src, "ZS", 2) == 0) {
            found = ZSTD_decompressDCtx(context, dst, uncompressed, payload, compressed);
        } else if (memcmp(src, "L4", 2) == 0 && compressed > LZ4_CHECKSUM) {
            found = (size_t)LZ4_decompress_safe((const char *)payload + LZ4_CHECKSUM, (char *)dst,
                                                (int)(compressed - LZ4_CHECKSUM), (int)uncompressed);
        }
        if (found != uncompressed || found == 0) return 0;
        src += HEADER + compressed;
        stored -= HEADER + compressed;
        dst += uncompressed;
        size -= uncompressed;
    }
    return 1;
}

/* Does the work over `n_pages` pages, three numbers each: offset in the file, bytes stored, bytes uncompressed.
 *
 * Pages of equal size were stored uncompressed, as ROOT does where compression gains nothing. With `copy` zero the
 * pages are only decompressed. The time starts before the memory is asked for, and ends before it is given back.
 */
int64_t floor_run(const uint8_t *file, const int64_t *pages, int64_t n_pages, int copy, double *seconds) {
    size_t total = 0, largest = 1;
    for (int64_t i = 0; i < n_pages; i++) {
        size_t size = (size_t)pages[3 * i + 2];
        total += size;
        if (size > largest) largest = size;
    }
    uint8_t *scratch = malloc(largest);
    ZSTD_DCtx *context = ZSTD_createDCtx();
    if (!scratch || !context) return NO_MEMORY;
    memset(scratch, 0, largest);

    int64_t failed = 0;
    double start = now();
    uint8_t *target = NULL, *end = NULL;
    if (copy && total > 0) {
        target = mmap(NULL, total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (target == MAP_FAILED) return NO_MEMORY;
        madvise(target, total, MADV_NOHUGEPAGE);
        end = target;
    }
    for (int64_t i = 0; i < n_pages && failed == 0; i++) {
        const uint8_t *page = file + pages[3 * i];
        size_t stored = (size_t)pages[3 * i + 1], size = (size_t)pages[3 * i + 2];
        const uint8_t *decoded = page;
        if (stored != size) {
            if (!decompress(context, page, stored, scratch, size)) failed = i + 1;
            decoded = scratch;
        }
        if (copy) {
            memcpy(end, decoded, size);
            end += size;
        }
    }
    *seconds = now() - start;
    if (target) munmap(target, total);
    ZSTD_freeDCtx(context);
    free(scratch);
    return failed;
}
