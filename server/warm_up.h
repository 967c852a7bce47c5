// server/warm_up.h
//
// Touches what every model will touch anyway: kernel library, threads, allocator. What the process
// holds afterwards is the base of the ledger.

#ifndef SLUICE_SERVER_WARM_UP_H_
#define SLUICE_SERVER_WARM_UP_H_

#include "absl/status/status.h"
#include "engine/backend.h"
#include "engine/compute_team.h"

namespace sluice {

// Tells the allocator to use few arenas, to map large blocks, and to give freed memory back soon:
// the budget counts what the kernel counts. Call before threads are started.
void TuneAllocator();

// Gives freed memory back to the system.
void ReturnFreedMemory();

// Runs a small network once on the compute team. Fails: what the backend fails with.
absl::Status WarmUp(Backend& backend, ComputeTeam& team);

}  // namespace sluice

#endif  // SLUICE_SERVER_WARM_UP_H_
