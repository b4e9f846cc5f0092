/* Numbers of Megatron's PREFIX.idx (megatron/core/datasets/indexed_dataset.py). After the magic:
 * version (8 bytes), type of a token (1), number of sequences (8), number of document borders (8);
 * then the sequences' lengths in tokens (4 each), their places in PREFIX.bin in bytes (8 each),
 * and for each border the number of the sequence that follows it (8 each). Little-endian. */
#ifndef PST_DATA_INDEXED_FORMAT_H
#define PST_DATA_INDEXED_FORMAT_H

#define PST_INDEXED_MAGIC "MMIDIDX\0\0"
enum {
    PST_INDEXED_MAGIC_BYTES = 9,
    PST_INDEXED_HEADER = 34, /* bytes before the lengths */
    PST_INDEXED_VERSION = 1,
    PST_INDEXED_UINT8 = 1,
    PST_INDEXED_INT8,
    PST_INDEXED_INT16,
    PST_INDEXED_INT32,
    PST_INDEXED_INT64,
    PST_INDEXED_FLOAT64,
    PST_INDEXED_FLOAT32,
    PST_INDEXED_UINT16,
};
#endif
