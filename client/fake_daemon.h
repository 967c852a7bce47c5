// client/fake_daemon.h
//
// For tests of the client: a gRPC server on a socket of its own that answers as told.

#ifndef SLUICE_CLIENT_FAKE_DAEMON_H_
#define SLUICE_CLIENT_FAKE_DAEMON_H_

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <memory>
#include <string>

#include "client/test_folder.h"
#include "open_inference.grpc.pb.h"
#include "sluice.grpc.pb.h"

namespace sluice {

// Knows one model, "detector": input x FP32 [1, 3, 8, 16]; output map FP32 [1, 1, 8, 16], which is
// 1 in a rectangle of text, whatever the input. "broken" answers INTERNAL, "slow" never in time.
class FakeDaemon : public inference::GRPCInferenceService::Service, public v1::Sluice::Service {
 public:
  FakeDaemon();
  ~FakeDaemon() override;

  const std::string& address() const { return address_; }
  // The request that came last.
  inference::ModelInferRequest last_request;
  // Ready from this call on.
  std::atomic<int> ready_after = 0;
  // What Infer answers in place of the map; empty: the map.
  std::string raw_answer;

  grpc::Status ServerReady(grpc::ServerContext* context,
                           const inference::ServerReadyRequest* request,
                           inference::ServerReadyResponse* response) override;
  grpc::Status ModelReady(grpc::ServerContext* context, const inference::ModelReadyRequest* request,
                          inference::ModelReadyResponse* response) override;
  grpc::Status ModelMetadata(grpc::ServerContext* context,
                             const inference::ModelMetadataRequest* request,
                             inference::ModelMetadataResponse* response) override;
  grpc::Status ModelInfer(grpc::ServerContext* context, const inference::ModelInferRequest* request,
                          inference::ModelInferResponse* response) override;
  grpc::Status RepositoryIndex(grpc::ServerContext* context,
                               const inference::RepositoryIndexRequest* request,
                               inference::RepositoryIndexResponse* response) override;
  // As of a daemon that knows "detector" alone.
  grpc::Status RepositoryModelLoad(grpc::ServerContext* context,
                                   const inference::RepositoryModelLoadRequest* request,
                                   inference::RepositoryModelLoadResponse* response) override;
  grpc::Status RepositoryModelUnload(grpc::ServerContext* context,
                                     const inference::RepositoryModelUnloadRequest* request,
                                     inference::RepositoryModelUnloadResponse* response) override;
  grpc::Status GetMemory(grpc::ServerContext* context, const v1::GetMemoryRequest* request,
                         v1::GetMemoryResponse* response) override;

 private:
  TestFolder folder_;
  std::string address_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace sluice

#endif  // SLUICE_CLIENT_FAKE_DAEMON_H_
