// server/health_service.h
//
// grpc.health.v1: Check answers once, Watch answers at each change. A watch is an object, not a
// thread.

#ifndef SLUICE_SERVER_HEALTH_SERVICE_H_
#define SLUICE_SERVER_HEALTH_SERVICE_H_

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "health.grpc.pb.h"
#include "server/wire_statistics.h"

namespace sluice {

enum class Health : std::uint8_t { kUnknown, kServing, kNotServing };

// Which answers a watcher gets. gRPC allows one write at a time: what changes meanwhile is looked
// at when it is done, and only the last state is told.
// Threads: one caller at a time; HealthWatch holds a lock around it.
class WatchState {
 public:
  // Each returns the status to write now, if any. Until OnWritten, none is returned again.
  std::optional<Health> OnHealth(Health now);
  std::optional<Health> OnWritten();
  bool writing() const { return writing_; }

 private:
  std::optional<Health> Next();
  std::optional<Health> told_, current_;
  bool writing_ = false;
};

// Threads: callable from several at once.
class HealthService final : public grpc::health::v1::Health::WithRawCallbackMethod_Check<
                                grpc::health::v1::Health::WithRawCallbackMethod_Watch<
                                    grpc::health::v1::Health::Service>> {
 public:
  // More open watches are refused with RESOURCE_EXHAUSTED.
  static constexpr std::size_t kMaxWatches = 4096;
  // Longer names are refused with INVALID_ARGUMENT.
  static constexpr std::size_t kMaxName = 1024;

  using Lookup = std::function<Health(std::string_view service)>;
  // Owns: `statistics` must outlive the service.
  HealthService(Lookup lookup, WireStatistics& statistics);
  ~HealthService() override;

  // Something may have changed: looks every watched name up and tells those whose health changed.
  void Notify();
  // Ends every watch, and refuses further ones: the server is going away.
  void EndWatches();

  grpc::ServerUnaryReactor* Check(grpc::CallbackServerContext* context,
                                  const grpc::ByteBuffer* request,
                                  grpc::ByteBuffer* response) override;
  grpc::ServerWriteReactor<grpc::ByteBuffer>* Watch(grpc::CallbackServerContext* context,
                                                    const grpc::ByteBuffer* request) override;

 private:
  class HealthWatch;
  // Shared: Notify may hold a watch that gRPC ends at the same time.
  using WatchPointer = std::shared_ptr<HealthWatch>;

  void Remove(const WatchPointer& watch);
  std::vector<WatchPointer> Watches();

  const Lookup lookup_;
  WireStatistics& statistics_;
  Mutex mutex_;
  std::set<WatchPointer> watches_ ABSL_GUARDED_BY(mutex_);
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace sluice

#endif  // SLUICE_SERVER_HEALTH_SERVICE_H_
