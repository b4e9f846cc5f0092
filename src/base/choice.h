/* The result of autotuning, as text in a plan, so that a rerun uses the same algorithm without
 * measuring and gets the same bits. Two records with the same `of` are for the same operation on
 * the same kind of device. */
#ifndef PST_BASE_CHOICE_H
#define PST_BASE_CHOICE_H

enum { PST_CHOICE_OF = 200, PST_CHOICE_IS = 160 };
typedef struct {
    char of[PST_CHOICE_OF]; /* the operation and the device: "NVIDIA H200 x132 cublasLt 130101 BF16
                               BF16 TN bias 3072x8192x768" */
    char is[PST_CHOICE_IS]; /* the chosen algorithm, in the format of the kernels that chose it */
} pst_choice;
#endif
