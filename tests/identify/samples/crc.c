/* Cyclic redundancy check, one bit at a time. */
#include <stdint.h>
#include <stdio.h>

#define POLYNOMIAL 0xEDB88320u

uint32_t crc32_update(uint32_t crc, const uint8_t *data, unsigned length)
{
    unsigned i, bit;
    crc = ~crc;
    for (i = 0; i < length; i++) {
        crc ^= data[i];
        for (bit = 0; bit < 8; bit++)
            crc = (crc >> 1) ^ ((crc & 1) ? POLYNOMIAL : 0);
    }
    return ~crc;
}

int main(int argc, char **argv)
{
    int c;
    uint32_t crc = 0;
    (void)argc;
    while ((c = getchar()) != EOF) {
        uint8_t byte = (uint8_t)c;
        crc = crc32_update(crc, &byte, 1);
    }
    printf("%s: %08x\n", argv[0], (unsigned)crc);
    return 0;
}
