// engine/cpu/against_reference.h
//
// For tests: a graph run by the CPU backend and by the reference, and the two compared.

#ifndef SLUICE_ENGINE_CPU_AGAINST_REFERENCE_H_
#define SLUICE_ENGINE_CPU_AGAINST_REFERENCE_H_

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "engine/backend.h"
#include "engine/compute_team.h"
#include "engine/program.h"
#include "engine/testing/graph_builder.h"
#include "engine/testing/program_runner.h"

namespace sluice {

// The team of all tests of one program: two threads.
ComputeTeam& TestTeam();

struct Outcome {
  std::vector<TensorContents> outputs;
  std::vector<std::string> kernels;  // Of each step.
  std::string fingerprint;
};

// Runs `graph` on seeded inputs. Reports failures to the test and returns what there is.
Outcome RunCpu(const Graph& graph, const LowerOptions& options = {});
std::vector<TensorContents> RunReference(const Graph& graph);

// Floats within `tolerance` of 1 + |wanted|, everything else the same bytes. Returns what the CPU
// backend did, to look at its kernels.
Outcome ExpectMatchesReference(const Graph& graph, const LowerOptions& options = {},
                               double tolerance = 2e-5);

// How many of the kernels' names contain `part`.
std::size_t Count(const Outcome& outcome, const std::string& part);

}  // namespace sluice

#endif  // SLUICE_ENGINE_CPU_AGAINST_REFERENCE_H_
