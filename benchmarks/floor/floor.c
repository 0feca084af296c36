/* The floor: the least that any reader or writer of these pages or baskets has to do.
 *
 * Reading: every page is decompressed by the bare library into one small buffer, which stays in the processor's cache,
 * and its bytes are copied to their place in memory that was allocated for this run and that nobody has touched before.
 * No checksums, no unsplitting, no offsets, no reading: the file is mapped and all of it is in memory beforehand.
 *
 * Writing: every page is compressed by the bare library, and what comes out is written to a file, in blocks. No
 * splitting, no checksums, no metadata, no sync: the bytes of the pages are in memory beforehand.
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
#include <unistd.h>

typedef struct ZSTD_DCtx_s ZSTD_DCtx;
ZSTD_DCtx *ZSTD_createDCtx(void);
size_t ZSTD_freeDCtx(ZSTD_DCtx *);
size_t ZSTD_decompressDCtx(ZSTD_DCtx *, void *, size_t, const void *, size_t);
const char *ZSTD_versionString(void);
typedef struct ZSTD_CCtx_s ZSTD_CCtx;
ZSTD_CCtx *ZSTD_createCCtx(void);
size_t ZSTD_freeCCtx(ZSTD_CCtx *);
size_t ZSTD_compressCCtx(ZSTD_CCtx *, void *, size_t, const void *, size_t, int);
unsigned ZSTD_isError(size_t);
struct libdeflate_decompressor;
struct libdeflate_decompressor *libdeflate_alloc_decompressor(void);
void libdeflate_free_decompressor(struct libdeflate_decompressor *);
int libdeflate_zlib_decompress(struct libdeflate_decompressor *, const void *, size_t, void *, size_t, size_t *);
int LZ4_decompress_safe(const char *, char *, int, int);
const char *LZ4_versionString(void);

const char *floor_zstd_version(void) { return ZSTD_versionString(); }
const char *floor_lz4_version(void) { return LZ4_versionString(); }

enum { HEADER = 9, LZ4_CHECKSUM = 8 };

/* Blocks in which output is written, and the least that ROOT compresses. */
enum { BLOCK = 4 << 20, LEAST_PAYLOAD = 11, LARGEST_RECORD = 0xffffff };

/* What the functions return in place of 0, beside the number of the page that failed, counted from 1. */
enum { NO_MEMORY = -1, NOT_WRITTEN = -2 };

typedef struct {
    ZSTD_DCtx *zstd;
    struct libdeflate_decompressor *deflate;
} Decompressors;

static int allocate(Decompressors *with) {
    with->zstd = ZSTD_createDCtx();
    with->deflate = libdeflate_alloc_decompressor();
    return with->zstd && with->deflate;
}

static void release(Decompressors *with) {
    ZSTD_freeDCtx(with->zstd);
    libdeflate_free_decompressor(with->deflate);
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static size_t three_bytes(const uint8_t *p) { return p[0] | (size_t)p[1] << 8 | (size_t)p[2] << 16; }

/* Decompresses ROOT's records, mostly a single one, until `size` bytes are there; 0 if something does not fit. */
static int decompress(Decompressors *with, const uint8_t *src, size_t stored, uint8_t *dst, size_t size) {
    while (size > 0) {
        if (stored < HEADER) return 0;
        size_t compressed = three_bytes(src + 3), uncompressed = three_bytes(src + 6);
        if (compressed > stored - HEADER || uncompressed > size) return 0;
        const uint8_t *payload = src + HEADER;
        size_t found = 0;
        if (memcmp(src, "ZS", 2) == 0) {
            found = ZSTD_decompressDCtx(with->zstd, dst, uncompressed, payload, compressed);
        } else if (memcmp(src, "L4", 2) == 0 && compressed > LZ4_CHECKSUM) {
            found = (size_t)LZ4_decompress_safe((const char *)payload + LZ4_CHECKSUM, (char *)dst,
                                                (int)(compressed - LZ4_CHECKSUM), (int)uncompressed);
        } else if (memcmp(src, "ZL", 2) == 0 &&
                   libdeflate_zlib_decompress(with->deflate, payload, compressed, dst, uncompressed, &found) != 0) {
            return 0;
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
    Decompressors with;
    if (!scratch || !allocate(&with)) return NO_MEMORY;
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
            if (!decompress(&with, page, stored, scratch, size)) failed = i + 1;
            decoded = scratch;
        }
        if (copy) {
            memcpy(end, decoded, size);
            end += size;
        }
    }
    *seconds = now() - start;
    if (target) munmap(target, total);
    release(&with);
    free(scratch);
    return failed;
}

/* Puts the bytes of all pages, one after another, to `target`, which has room for them. Not measured. */
int64_t floor_decode(const uint8_t *file, const int64_t *pages, int64_t n_pages, uint8_t *target) {
    Decompressors with;
    if (!allocate(&with)) return NO_MEMORY;
    int64_t failed = 0;
    for (int64_t i = 0; i < n_pages && failed == 0; i++) {
        const uint8_t *page = file + pages[3 * i];
        size_t stored = (size_t)pages[3 * i + 1], size = (size_t)pages[3 * i + 2];
        if (stored == size) {
            memcpy(target, page, size);
        } else if (!decompress(&with, page, stored, target, size)) {
            failed = i + 1;
        }
        target += size;
    }
    release(&with);
    return failed;
}

static void put_three_bytes(uint8_t *p, size_t value) {
    for (int i = 0; i < 3; i++) p[i] = (uint8_t)(value >> 8 * i);
}

/* Compresses one page as ROOT does, or copies it if that gains nothing; returns the bytes that `dst` has then. */
static size_t compress(ZSTD_CCtx *context, int level, const uint8_t *src, size_t size, uint8_t *dst) {
    if (level > 0 && size >= LEAST_PAYLOAD && size <= LARGEST_RECORD) {
        size_t found = ZSTD_compressCCtx(context, dst + HEADER, size - 1 - HEADER, src, size, level);
        if (!ZSTD_isError(found)) {
            memcpy(dst, "ZS\1", 3);
            put_three_bytes(dst + 3, found);
            put_three_bytes(dst + 6, size);
            return HEADER + found;
        }
    }
    memcpy(dst, src, size);
    return size;
}

/* Writes to the end of the file, which several threads share. */
static int append(int file, int64_t *end, const uint8_t *bytes, size_t size) {
    int64_t at = __atomic_fetch_add(end, (int64_t)size, __ATOMIC_RELAXED);
    while (size > 0) {
        ssize_t written = pwrite(file, bytes, size, at);
        if (written <= 0) return 0;
        bytes += written;
        at += written;
        size -= (size_t)written;
    }
    return 1;
}

/* Compresses pages by libzstd (level 0: not at all) and writes them to `file`.
 *
 * The pages are one after another in memory: page i from offsets[i] to offsets[i + 1]. Several threads may be at it
 * with one `next`, the first page that nobody has taken, and one `end`, the size of the file; both begin with 0.
 */
int64_t floor_write(const uint8_t *bytes, const int64_t *offsets, int64_t n_pages, int level, int file, int64_t *next,
                    int64_t *end) {
    size_t largest = 1, filled = 0;
    for (int64_t i = 0; i < n_pages; i++) {
        size_t size = (size_t)(offsets[i + 1] - offsets[i]);
        if (size > largest) largest = size;
    }
    uint8_t *block = malloc(BLOCK + largest);
    ZSTD_CCtx *context = ZSTD_createCCtx();
    if (!block || !context) return NO_MEMORY;
    int64_t failed = 0, i = 0;
    while (failed == 0 && (i = __atomic_fetch_add(next, 1, __ATOMIC_RELAXED)) < n_pages) {
        filled += compress(context, level, bytes + offsets[i], (size_t)(offsets[i + 1] - offsets[i]), block + filled);
        if (filled >= BLOCK) {
            if (!append(file, end, block, filled)) failed = NOT_WRITTEN;
            filled = 0;
        }
    }
    if (failed == 0 && !append(file, end, block, filled)) failed = NOT_WRITTEN;
    ZSTD_freeCCtx(context);
    free(block);
    return failed;
}
