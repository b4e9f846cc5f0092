/* Packed pushes: a worker packs what it pushes with a codec (base/codec.h) and adds what packing
 * leaves out to its next push of the key. The server unpacks it and adds it like any other push. */
#ifndef PST_KV_COMPRESS_H
#define PST_KV_COMPRESS_H
#include "base/codec.h"
#include "base/status.h"
#include "penstock/kv.h"

/* EINPUT: an unknown codec, or numbers that it does not have. */
pst_status pst_kv_codec_of(const pst_kv_compression *c, pst_codec *codec);
/* Returns whether a codec that another process sent can be unpacked. */
int pst_kv_codec_is_valid(const pst_codec *codec);
/* Packs n numbers. error: [n] what earlier pushes have left out; updated. packed:
 * pst_codec_bytes. */
void pst_kv_pack(const pst_codec *codec, const float *x, float *error, uint64_t n, uint8_t *packed);
void pst_kv_unpack(const pst_codec *codec, const uint8_t *packed, float *x, uint64_t n);
#endif
