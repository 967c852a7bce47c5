#define SLUICE_ISA generic
#define SLUICE_ISA_NAME "generic"
#define SLUICE_VECTOR_BYTES 16
#include "engine/kernels/loops.inc"
