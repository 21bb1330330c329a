/* Images that `headrace export` wrote. */

#include "headrace_driver.h"

static uint32_t word(const uint8_t *bytes, unsigned index)
{
    const uint8_t *at = bytes + 4u * index;
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static uint64_t two_words(const uint8_t *bytes, unsigned index)
{
    return word(bytes, index) | (uint64_t)word(bytes, index + 1u) << 32;
}

uint32_t headrace_crc32(uint32_t crc, const void *data, size_t bytes)
{
    const uint8_t *at = data;
    crc = ~crc;
    while (bytes--) {
        crc ^= *at++;
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (0xEDB88320u & (0u - (crc & 1u)));
    }
    return ~crc;
}

int headrace_image_header(struct headrace_image *image, const void *header)
{
    const uint8_t *bytes = header;
    uint32_t crc = headrace_crc32(0, bytes, 4u * HEADRACE_IMAGE_HEADER_CRC);

    if (word(bytes, HEADRACE_IMAGE_MAGIC) != HEADRACE_IMAGE_MAGIC_VALUE ||
        word(bytes, HEADRACE_IMAGE_FORMAT) != HEADRACE_IMAGE_FORMAT_VALUE ||
        word(bytes, HEADRACE_IMAGE_ISA_VERSION) != HEADRACE_VERSION ||
        word(bytes, HEADRACE_IMAGE_HEADER_CRC) != crc)
        return HEADRACE_E_IMAGE;
    image->fingerprint = word(bytes, HEADRACE_IMAGE_FINGERPRINT);
    image->content_bytes = two_words(bytes, HEADRACE_IMAGE_CONTENT_BYTES);
    image->total_bytes = two_words(bytes, HEADRACE_IMAGE_TOTAL_BYTES);
    image->program = word(bytes, HEADRACE_IMAGE_PROGRAM);
    image->instructions = word(bytes, HEADRACE_IMAGE_INSTRUCTIONS);
    image->kv_base = word(bytes, HEADRACE_IMAGE_KV_BASE);
    image->kv_pinned = word(bytes, HEADRACE_IMAGE_KV_PINNED);
    image->tokens = word(bytes, HEADRACE_IMAGE_TOKENS);
    image->logits = word(bytes, HEADRACE_IMAGE_LOGITS);
    image->vocab = word(bytes, HEADRACE_IMAGE_VOCAB);
    image->context = word(bytes, HEADRACE_IMAGE_CONTEXT);
    image->chunk = word(bytes, HEADRACE_IMAGE_CHUNK);
    image->prefill_chunk = word(bytes, HEADRACE_IMAGE_PREFILL_CHUNK);
    image->max_passes = word(bytes, HEADRACE_IMAGE_MAX_PASSES);
    image->eos_count = word(bytes, HEADRACE_IMAGE_EOS_COUNT);
    image->content_crc = word(bytes, HEADRACE_IMAGE_CONTENT_CRC);
    image->content = NULL;
    if (image->eos_count > HEADRACE_IMAGE_EOS_WORDS || image->prefill_chunk == 0 ||
        image->content_bytes > image->total_bytes)
        return HEADRACE_E_IMAGE;
    for (uint32_t index = 0; index < HEADRACE_IMAGE_EOS_WORDS; index++)
        image->eos[index] = word(bytes, HEADRACE_IMAGE_EOS + index);
    return HEADRACE_OK;
}

int headrace_image_parse(struct headrace_image *image, const void *flat, size_t bytes)
{
    const uint8_t *content = (const uint8_t *)flat + HEADRACE_IMAGE_HEADER_BYTES;
    int result;

    if (bytes < HEADRACE_IMAGE_HEADER_BYTES)
        return HEADRACE_E_IMAGE;
    result = headrace_image_header(image, flat);
    if (result != HEADRACE_OK)
        return result;
    if (image->content_bytes != bytes - HEADRACE_IMAGE_HEADER_BYTES ||
        headrace_crc32(0, content, (size_t)image->content_bytes) != image->content_crc)
        return HEADRACE_E_IMAGE;
    image->content = content;
    return HEADRACE_OK;
}

int headrace_is_end(const struct headrace_image *image, uint32_t token)
{
    for (uint32_t index = 0; index < image->eos_count; index++)
        if (image->eos[index] == token)
            return 1;
    return 0;
}
