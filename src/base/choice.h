/* A choice that was made by measuring, as text that a plan keeps: so a rerun makes it without
 * measuring, with the same bits. Two choices with the same `of` are for the same thing on the same
 * kind of device. */
#ifndef PST_BASE_CHOICE_H
#define PST_BASE_CHOICE_H

enum { PST_CHOICE_OF = 200, PST_CHOICE_IS = 160 };
typedef struct {
    char of[PST_CHOICE_OF]; /* "NVIDIA H200 x132 cublasLt 130101 BF16 BF16 TN bias 3072x8192x768" */
    char is[PST_CHOICE_IS]; /* what whoever has chosen makes of it */
} pst_choice;
#endif
