#define SLUICE_ISA widen_avx2
#define SLUICE_ISA_NAME "avx2"
#include "engine/widen_loops.inc"
