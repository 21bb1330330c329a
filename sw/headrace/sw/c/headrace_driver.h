/* Minimal driver of headrace: C99, no allocation, no operating system.
 *
 * The caller says how to reach registers and memory, by four functions. All calls return
 * HEADRACE_OK or what went wrong; after any of these the device can be opened again.
 *
 *     headrace_image_parse(&image, flat, bytes)     a file that `headrace export` wrote
 *     headrace_open(&device, &io, base, bytes)
 *     headrace_load(&device, &image, base)
 *     headrace_prefill(&device, ids, count, &token)
 *     headrace_decode(&device, passes, tokens)
 */
#ifndef HEADRACE_DRIVER_H
#define HEADRACE_DRIVER_H

#include <stddef.h>
#include <stdint.h>

#include "headrace.h"
#include "headrace_image.h"

#ifdef __cplusplus
extern "C" {
#endif

enum headrace_result {
    HEADRACE_OK = 0,
    HEADRACE_E_LINK,        /* a function of headrace_io failed, or a register lost its value */
    HEADRACE_E_NO_DEVICE,   /* register id reads something else */
    HEADRACE_E_VERSION,     /* another version of the register map */
    HEADRACE_E_IMAGE,       /* the image is truncated, damaged, or of another version */
    HEADRACE_E_FINGERPRINT, /* the image was compiled for another configuration */
    HEADRACE_E_MEMORY,      /* the image does not fit into the memory */
    HEADRACE_E_STORED,      /* memory does not hold what was written */
    HEADRACE_E_ARGUMENT,    /* no image is loaded, or a count or an id is out of range */
    HEADRACE_E_CONTEXT,     /* the context of the image is full */
    HEADRACE_E_TIMEOUT,     /* a run or a reset did not end; see `failure` */
    HEADRACE_E_DEVICE,      /* the device ended a run with an error; see `failure` */
    HEADRACE_E_LOST,        /* the device was reset or configured anew; see `failure` */
    HEADRACE_RESULTS
};

/* How the driver reaches a device. Functions return 0, or anything else if they failed. */
struct headrace_io {
    void *context; /* handed to all functions */
    /* A register, at a byte offset from the control port's base. */
    int (*read32)(void *context, uint32_t offset, uint32_t *value);
    int (*write32)(void *context, uint32_t offset, uint32_t value);
    /* Bytes to and from the device's memory, at an address of its memory port. What copy_to has
     * written must be visible to the device when write32 of `control` arrives. */
    int (*copy_to)(void *context, uint64_t address, const void *data, size_t bytes);
    int (*copy_from)(void *context, uint64_t address, void *data, size_t bytes);
    /* Optional: called between polls of a run; sleeps, or waits for the interrupt. */
    int (*wait)(void *context);
    /* Polls until a run or a reset counts as hanging, 0 for HEADRACE_POLLS. */
    uint32_t polls;
};

#define HEADRACE_POLLS 100000000u

/* A compiled model, see headrace_image.h for where each value stands in the file. */
struct headrace_image {
    uint32_t fingerprint;
    uint64_t content_bytes; /* from the base to the end of the weights */
    uint64_t total_bytes;   /* memory that it needs, with cache, tokens and logits */
    uint32_t program, instructions, kv_base, kv_pinned, tokens, logits; /* places: 64-byte units */
    uint32_t vocab, context, chunk, prefill_chunk, max_passes;
    uint32_t eos_count;
    uint32_t eos[HEADRACE_IMAGE_EOS_WORDS];
    uint32_t content_crc;
    const uint8_t *content; /* NULL if only the header was read */
};

/* What the device said when a call failed. */
struct headrace_failure {
    uint32_t status, error_code, passes_done;
    uint64_t address;
};

struct headrace {
    struct headrace_io io;
    uint64_t memory_base, memory_bytes;
    uint32_t version, fingerprint, size, limits; /* registers, as read when opened */
    const struct headrace_image *image;          /* bound, or NULL */
    uint64_t base;                               /* of the image */
    uint32_t position;                           /* tokens in the cache */
    int write_logits;                            /* set it to have logits of each last pass */
    struct headrace_failure failure;
};

/* Identify the device, and reset its engines. Its memory is memory_bytes from memory_base on. */
int headrace_open(struct headrace *device, const struct headrace_io *io, uint64_t memory_base,
                  uint64_t memory_bytes);

/* Reset the engines, and wait until reads and writes that are owed are drained. */
int headrace_reset(struct headrace *device);

/* Read the header of an image, HEADRACE_IMAGE_HEADER_BYTES bytes. */
int headrace_image_header(struct headrace_image *image, const void *header);

/* Read a whole image, checksum included; `image` points into it afterwards. */
int headrace_image_parse(struct headrace_image *image, const void *flat, size_t bytes);

/* Whether a token ends the text. */
int headrace_is_end(const struct headrace_image *image, uint32_t token);

/* Write an image to memory at `base`, a multiple of 4096, read it back, and bind it. */
int headrace_load(struct headrace *device, const struct headrace_image *image, uint64_t base);

/* The same in steps, for an image that is never in the host's memory as a whole: bind it, store
 * its content in parts, and verify. Bind alone is enough where memory holds the image already. */
int headrace_bind(struct headrace *device, const struct headrace_image *image, uint64_t base);
int headrace_store(struct headrace *device, uint64_t offset, const void *data, size_t bytes);
int headrace_verify(struct headrace *device);

/* Begin a new text. */
int headrace_restart(struct headrace *device);

/* Send tokens through the model, in chunks; the token that follows. */
int headrace_prefill(struct headrace *device, const uint32_t *ids, uint32_t count,
                     uint32_t *token);

/* Make passes in one run, each from the token before; the tokens, one of each pass. */
int headrace_decode(struct headrace *device, uint32_t passes, uint32_t *tokens);

/* Logits `first ... first + count` of the last pass, which had write_logits. */
int headrace_logits(struct headrace *device, uint32_t first, uint32_t count, float *logits);

/* All counters of the last run, in the order of HEADRACE_COUNTER_NAMES. */
int headrace_counters(struct headrace *device, uint64_t counters[HEADRACE_COUNTERS]);

/* Texts for people. */
const char *headrace_result_text(int result);
const char *headrace_error_text(uint32_t error_code);

/* CRC-32 as zlib computes it; begin with crc 0. */
uint32_t headrace_crc32(uint32_t crc, const void *data, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif
