/* Minimal driver of headrace, see headrace_driver.h. */

#include "headrace_driver.h"

#include <string.h>

/* Leave a function with what went wrong in a call. */
#define TRY(call)                           \
    do {                                    \
        int result_ = (call);               \
        if (result_ != HEADRACE_OK)         \
            return result_;                 \
    } while (0)

enum {
    PIECE = 256 /* bytes on the stack, at once */
};

static const char *const results[HEADRACE_RESULTS] = {
    "done",
    "the link failed or changed what was sent",
    "there is no headrace device at this address",
    "the device has another, or an older, version of the register map",
    "the image is truncated, damaged, or of another version: export it again",
    "the image was compiled for another configuration than the device's",
    "the image does not fit into the device's memory",
    "memory does not hold what was written",
    "no image is loaded, or a count or a token is out of range",
    "the context of the image is full",
    "a run or a reset did not end in time",
    "the device ended the run with an error",
    "the device was reset or configured anew: open it again",
};

static const char *const errors[HEADRACE_ERRORS] = HEADRACE_ERROR_TEXTS;

const char *headrace_result_text(int result)
{
    return result >= 0 && result < HEADRACE_RESULTS ? results[result] : "unknown result";
}

const char *headrace_error_text(uint32_t error_code)
{
    return error_code < HEADRACE_ERRORS ? errors[error_code] : "unknown error";
}

/* Registers. */

static int get(struct headrace *device, uint32_t offset, uint32_t *value)
{
    return device->io.read32(device->io.context, offset, value) ? HEADRACE_E_LINK : HEADRACE_OK;
}

static int put(struct headrace *device, uint32_t offset, uint32_t value)
{
    return device->io.write32(device->io.context, offset, value) ? HEADRACE_E_LINK : HEADRACE_OK;
}

/* Write a register that keeps its value, and look whether it does. */
static int set(struct headrace *device, uint32_t offset, uint32_t value)
{
    uint32_t found;

    TRY(put(device, offset, value));
    TRY(get(device, offset, &found));
    return found == value ? HEADRACE_OK : HEADRACE_E_LINK;
}

static int between_polls(struct headrace *device)
{
    if (device->io.wait == NULL)
        return HEADRACE_OK;
    return device->io.wait(device->io.context) ? HEADRACE_E_LINK : HEADRACE_OK;
}

static uint32_t polls(const struct headrace *device)
{
    return device->io.polls ? device->io.polls : HEADRACE_POLLS;
}

/* Keep what the device says of a failure. */
static int note(struct headrace *device)
{
    struct headrace_failure *failure = &device->failure;
    uint32_t low, high;

    TRY(get(device, HEADRACE_STATUS_OFFSET, &failure->status));
    TRY(get(device, HEADRACE_ERROR_CODE_OFFSET, &failure->error_code));
    TRY(get(device, HEADRACE_ERROR_ADDR_LO_OFFSET, &low));
    TRY(get(device, HEADRACE_ERROR_ADDR_HI_OFFSET, &high));
    failure->address = low | (uint64_t)high << 32;
    return get(device, HEADRACE_PASSES_DONE_OFFSET, &failure->passes_done);
}

int headrace_reset(struct headrace *device)
{
    uint32_t status;

    TRY(put(device, HEADRACE_CONTROL_OFFSET, HEADRACE_CONTROL_RESET_MASK));
    for (uint32_t left = polls(device); left; left--) {
        TRY(get(device, HEADRACE_STATUS_OFFSET, &status));
        if (!(status & HEADRACE_STATUS_RESETTING_MASK))
            return put(device, HEADRACE_IRQ_OFFSET, HEADRACE_IRQ_PENDING_MASK);
    }
    TRY(note(device));
    return HEADRACE_E_TIMEOUT;
}

int headrace_open(struct headrace *device, const struct headrace_io *io, uint64_t memory_base,
                  uint64_t memory_bytes)
{
    uint32_t id;

    memset(device, 0, sizeof *device);
    device->io = *io;
    device->memory_base = memory_base;
    device->memory_bytes = memory_bytes;
    TRY(get(device, HEADRACE_ID_OFFSET, &id));
    if (id != HEADRACE_ID)
        return HEADRACE_E_NO_DEVICE;
    TRY(get(device, HEADRACE_VERSION_OFFSET, &device->version));
    /* A lower minor version lacks what images may use. */
    if (device->version >> 16 != HEADRACE_VERSION >> 16 ||
        (device->version & 0xffffu) < (HEADRACE_VERSION & 0xffffu))
        return HEADRACE_E_VERSION;
    TRY(get(device, HEADRACE_FINGERPRINT_OFFSET, &device->fingerprint));
    TRY(get(device, HEADRACE_SIZE_OFFSET, &device->size));
    TRY(get(device, HEADRACE_LIMITS_OFFSET, &device->limits));
    return headrace_reset(device);
}

/* Memory. */

static uint64_t place(const struct headrace *device, uint32_t unit)
{
    return device->base + 64u * (uint64_t)unit;
}

static int write_words(struct headrace *device, uint64_t address, const uint32_t *values,
                       uint32_t count)
{
    uint8_t bytes[PIECE];

    while (count) {
        uint32_t part = count < PIECE / 4 ? count : PIECE / 4;
        for (uint32_t index = 0; index < part; index++)
            for (int byte = 0; byte < 4; byte++)
                bytes[4u * index + (unsigned)byte] = (uint8_t)(values[index] >> 8 * byte);
        if (device->io.copy_to(device->io.context, address, bytes, 4u * part))
            return HEADRACE_E_LINK;
        address += 4u * part;
        values += part;
        count -= part;
    }
    return HEADRACE_OK;
}

static int read_words(struct headrace *device, uint64_t address, uint32_t *values, uint32_t count)
{
    uint8_t bytes[PIECE];

    while (count) {
        uint32_t part = count < PIECE / 4 ? count : PIECE / 4;
        if (device->io.copy_from(device->io.context, address, bytes, 4u * part))
            return HEADRACE_E_LINK;
        for (uint32_t index = 0; index < part; index++) {
            values[index] = 0;
            for (int byte = 0; byte < 4; byte++)
                values[index] |= (uint32_t)bytes[4u * index + (unsigned)byte] << 8 * byte;
        }
        address += 4u * part;
        values += part;
        count -= part;
    }
    return HEADRACE_OK;
}

int headrace_bind(struct headrace *device, const struct headrace_image *image, uint64_t base)
{
    uint64_t offset = base - device->memory_base;

    device->image = NULL;
    if (image->fingerprint != device->fingerprint)
        return HEADRACE_E_FINGERPRINT;
    if (base % 4096 || base < device->memory_base || offset > device->memory_bytes ||
        image->total_bytes > device->memory_bytes - offset)
        return HEADRACE_E_MEMORY;
    TRY(set(device, HEADRACE_BASE_LO_OFFSET, (uint32_t)base));
    TRY(set(device, HEADRACE_BASE_HI_OFFSET, (uint32_t)(base >> 32)));
    TRY(set(device, HEADRACE_PROGRAM_OFFSET, image->program));
    TRY(set(device, HEADRACE_INSTRUCTIONS_OFFSET, image->instructions));
    TRY(set(device, HEADRACE_KV_BASE_OFFSET, image->kv_base));
    TRY(set(device, HEADRACE_KV_PINNED_OFFSET, image->kv_pinned));
    TRY(set(device, HEADRACE_IRQ_ENABLE_OFFSET, device->io.wait != NULL));
    device->image = image;
    device->base = base;
    device->position = 0;
    return HEADRACE_OK;
}

int headrace_store(struct headrace *device, uint64_t offset, const void *data, size_t bytes)
{
    if (device->image == NULL || offset > device->image->content_bytes ||
        bytes > device->image->content_bytes - offset)
        return HEADRACE_E_ARGUMENT;
    return device->io.copy_to(device->io.context, device->base + offset, data, bytes)
               ? HEADRACE_E_LINK : HEADRACE_OK;
}

int headrace_verify(struct headrace *device)
{
    uint8_t bytes[PIECE];
    uint32_t crc = 0;

    if (device->image == NULL)
        return HEADRACE_E_ARGUMENT;
    for (uint64_t done = 0; done < device->image->content_bytes;) {
        uint64_t left = device->image->content_bytes - done;
        size_t part = left < PIECE ? (size_t)left : PIECE;
        if (device->io.copy_from(device->io.context, device->base + done, bytes, part))
            return HEADRACE_E_LINK;
        crc = headrace_crc32(crc, bytes, part);
        done += part;
    }
    return crc == device->image->content_crc ? HEADRACE_OK : HEADRACE_E_STORED;
}

int headrace_load(struct headrace *device, const struct headrace_image *image, uint64_t base)
{
    int result;

    if (image->content == NULL)
        return HEADRACE_E_ARGUMENT;
    TRY(headrace_bind(device, image, base));
    result = headrace_store(device, 0, image->content, (size_t)image->content_bytes);
    if (result == HEADRACE_OK)
        result = headrace_verify(device);
    if (result != HEADRACE_OK)
        device->image = NULL;
    return result;
}

/* Runs. */

/* Wait for the end of a run. */
static int finish(struct headrace *device)
{
    uint32_t irq, status, instructions;

    for (uint32_t left = polls(device); left; left--) {
        TRY(get(device, HEADRACE_STATUS_OFFSET, &status));
        TRY(get(device, HEADRACE_IRQ_OFFSET, &irq));
        if (irq & HEADRACE_IRQ_PENDING_MASK)
            return put(device, HEADRACE_IRQ_OFFSET, HEADRACE_IRQ_PENDING_MASK);
        /* Neither running nor ended: the start was lost, or everything was. */
        TRY(get(device, HEADRACE_INSTRUCTIONS_OFFSET, &instructions));
        if (!(status & HEADRACE_STATUS_BUSY_MASK) ||
            instructions != device->image->instructions) {
            TRY(note(device));
            return HEADRACE_E_LOST;
        }
        TRY(between_polls(device));
    }
    TRY(note(device));
    TRY(headrace_reset(device));
    return HEADRACE_E_TIMEOUT;
}

static int run(struct headrace *device, uint32_t positions, uint32_t passes, int head)
{
    uint32_t status, instructions;
    uint32_t flags = HEADRACE_PUT((uint32_t)(head != 0), FLAGS_HEAD) |
                     HEADRACE_PUT((uint32_t)(device->write_logits != 0), FLAGS_LOGITS);

    memset(&device->failure, 0, sizeof device->failure);
    TRY(get(device, HEADRACE_INSTRUCTIONS_OFFSET, &instructions));
    if (instructions != device->image->instructions) {
        TRY(note(device));
        return HEADRACE_E_LOST;
    }
    TRY(set(device, HEADRACE_POSITION_OFFSET, device->position));
    TRY(set(device, HEADRACE_POSITIONS_OFFSET, positions));
    TRY(set(device, HEADRACE_PASSES_OFFSET, passes));
    TRY(set(device, HEADRACE_FLAGS_OFFSET, flags));
    TRY(put(device, HEADRACE_IRQ_OFFSET, HEADRACE_IRQ_PENDING_MASK));
    TRY(put(device, HEADRACE_CONTROL_OFFSET, HEADRACE_CONTROL_START_MASK));
    TRY(finish(device));
    TRY(get(device, HEADRACE_STATUS_OFFSET, &status));
    if (status & HEADRACE_STATUS_ERROR_MASK) {
        TRY(note(device));
        TRY(headrace_reset(device));
        return HEADRACE_E_DEVICE;
    }
    device->position += positions + passes - 1u;
    return HEADRACE_OK;
}

int headrace_restart(struct headrace *device)
{
    if (device->image == NULL)
        return HEADRACE_E_ARGUMENT;
    device->position = 0;
    return HEADRACE_OK;
}

int headrace_prefill(struct headrace *device, const uint32_t *ids, uint32_t count,
                     uint32_t *token)
{
    const struct headrace_image *image = device->image;
    uint32_t rows = HEADRACE_GET(device->size, SIZE_ROWS);

    if (image == NULL || count == 0)
        return HEADRACE_E_ARGUMENT;
    for (uint32_t index = 0; index < count; index++)
        if (ids[index] >= image->vocab)
            return HEADRACE_E_ARGUMENT;
    if (count > image->context - device->position)
        return HEADRACE_E_CONTEXT;
    TRY(write_words(device, place(device, image->tokens) + 4u * (uint64_t)device->position, ids,
                    count));
    while (count) {
        /* As even as whole row sets allow: a last pass of few tokens reads all weights for them. */
        uint32_t passes = (count - 1u) / image->prefill_chunk + 1u;
        uint32_t part = rows * ((count - 1u) / (passes * rows) + 1u);
        if (part > image->prefill_chunk)
            part = image->prefill_chunk;
        if (part > count)
            part = count;
        TRY(run(device, part, 1, part == count));
        count -= part;
    }
    return read_words(device, place(device, image->tokens) + 4u * (uint64_t)device->position,
                      token, 1);
}

int headrace_decode(struct headrace *device, uint32_t passes, uint32_t *tokens)
{
    const struct headrace_image *image = device->image;
    uint64_t first;

    if (image == NULL || passes == 0 || passes > image->max_passes || device->position == 0)
        return HEADRACE_E_ARGUMENT;
    if (passes > image->context - device->position)
        return HEADRACE_E_CONTEXT;
    first = place(device, image->tokens) + 4u * ((uint64_t)device->position + 1u);
    TRY(run(device, 1, passes, 1));
    return read_words(device, first, tokens, passes);
}

int headrace_logits(struct headrace *device, uint32_t first, uint32_t count, float *logits)
{
    const struct headrace_image *image = device->image;

    if (image == NULL || first > image->vocab || count > image->vocab - first)
        return HEADRACE_E_ARGUMENT;
    for (uint32_t done = 0; done < count;) {
        uint32_t bits[PIECE / 4];
        uint32_t part = count - done < PIECE / 4 ? count - done : PIECE / 4;
        TRY(read_words(device, place(device, image->logits) + 4u * ((uint64_t)first + done), bits,
                       part));
        memcpy(logits + done, bits, part * sizeof *bits);
        done += part;
    }
    return HEADRACE_OK;
}

int headrace_counters(struct headrace *device, uint64_t counters[HEADRACE_COUNTERS])
{
    for (uint32_t index = 0; index < HEADRACE_COUNTERS; index++) {
        uint32_t low, high, offset = HEADRACE_COUNTER_BASE + 8u * index;
        /* The low half first: reading it holds the high half. */
        TRY(get(device, offset, &low));
        TRY(get(device, offset + 4u, &high));
        counters[index] = low | (uint64_t)high << 32;
    }
    return HEADRACE_OK;
}
