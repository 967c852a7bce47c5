#include "engine/kernels/loops.h"

#include "engine/kernels/byte_tiles.h"

namespace sluice::kernels {

namespace generic {
extern const Loops kLoops;
}
#ifdef SLUICE_X86_LOOPS
namespace avx2 {
extern const Loops kLoops;
}
namespace avx512 {
extern const Loops kLoops;
}
#endif

const Loops* LoopsFor(Isa isa) {
#ifdef SLUICE_X86_LOOPS
  const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool has_avx512 = has_avx2 && __builtin_cpu_supports("avx512f") &&
                          __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (isa == Isa::kAvx2) return has_avx2 ? &avx2::kLoops : nullptr;
  if (isa == Isa::kAvx512) return has_avx512 ? &avx512::kLoops : nullptr;
#endif
  return isa == Isa::kGeneric ? &generic::kLoops : nullptr;
}

const Loops& BestLoops() {
  if (const Loops* loops = LoopsFor(Isa::kAvx512)) return *loops;
  if (const Loops* loops = LoopsFor(Isa::kAvx2)) return *loops;
  return generic::kLoops;
}

const ByteTiles* ByteTilesFor([[maybe_unused]] const Loops& loops) {
#ifdef SLUICE_X86_LOOPS
  if (&loops == LoopsFor(Isa::kAvx512) && __builtin_cpu_supports("avx512vnni")) {
    return VnniByteTiles();
  }
#endif
  return nullptr;
}

}  // namespace sluice::kernels
