/* Byte-level BPE learned from text (Sennrich et al. 2016): from single bytes on, the pair of
 * neighbours that is most frequent within words becomes a token, again and again. And a vocabulary
 * of WordPiece, in the same way from characters on, as Hugging Face's trainer learns it. */
#ifndef PST_TOKENIZER_TRAIN_H
#define PST_TOKENIZER_TRAIN_H
#include "tokenizer/tokenizer.h"
#include <stdio.h>

typedef struct pst_bpe_training pst_bpe_training;
pst_status pst_bpe_training_open(pst_bpe_training **out);
/* Of WordPiece: text is normalized and divided as BERT does it; cased: 1: letters keep their case
 * and accents. */
pst_status pst_wordpiece_training_open(int cased, pst_bpe_training **out);
void pst_bpe_training_close(pst_bpe_training *t);
/* Counts the words of a file, as GPT-2's pattern splits it; a word of more than 1,024 bytes counts
 * as several. Of WordPiece, words of more than 100 characters, which have no tokens, do not count.
 * *bytes: its size. */
pst_status pst_bpe_training_read(pst_bpe_training *t, const char *path, uint64_t *bytes);
/* The same of a text. */
pst_status pst_bpe_training_add(pst_bpe_training *t, const char *text, size_t bytes);
/* Learns tokens up to `vocabulary` ids: 256 bytes, merges, and <|endoftext|> as the last one; of
 * WordPiece [PAD], [UNK], [CLS], [SEP], [MASK], the characters of the text, and merges. Equal
 * counts: the pair of lower ids first. EINPUT: fewer ids than those before the merges, or the text
 * has too few pairs; cased, and no letter from A to Z, by which readers tell that a vocab.txt is
 * cased. */
pst_status pst_bpe_training_learn(pst_bpe_training *t, uint32_t vocabulary);
/* Number of different words; number of merges learned. */
uint32_t pst_bpe_training_words(const pst_bpe_training *t);
uint32_t pst_bpe_training_merges(const pst_bpe_training *t);
/* Writes a Hugging Face tokenizer.json, or of WordPiece a vocab.txt; for pst_file_replace, what:
 * the training. */
pst_status pst_bpe_training_print(const void *what, FILE *out);
#endif
