// server/open_inference_service.h
//
// The Open Inference Protocol's calls, each answered by an object on gRPC's own threads.

#ifndef SLUICE_SERVER_OPEN_INFERENCE_SERVICE_H_
#define SLUICE_SERVER_OPEN_INFERENCE_SERVICE_H_

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>

#include "open_inference.grpc.pb.h"
#include "server/wire_state.h"

namespace sluice {

namespace internal {
using Oip = inference::GRPCInferenceService;
// All take bytes: see wire_message.h.
using OipMethods = Oip::WithRawCallbackMethod_ServerLive<
    Oip::WithRawCallbackMethod_ServerReady<Oip::WithRawCallbackMethod_ModelReady<
        Oip::WithRawCallbackMethod_ServerMetadata<Oip::WithRawCallbackMethod_ModelMetadata<
            Oip::WithGenericMethod_ModelInfer<Oip::WithRawCallbackMethod_RepositoryIndex<
                Oip::WithRawCallbackMethod_RepositoryModelLoad<
                    Oip::WithRawCallbackMethod_RepositoryModelUnload<Oip::Service>>>>>>>>>;
}  // namespace internal

// Threads: callable from several at once.
class OpenInferenceService final : public internal::OipMethods {
 public:
  // Owns: `state` must outlive the service.
  explicit OpenInferenceService(WireState& state) : state_(state) {}

  grpc::ServerUnaryReactor* ServerLive(grpc::CallbackServerContext* context,
                                       const grpc::ByteBuffer* request,
                                       grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* ServerReady(grpc::CallbackServerContext* context,
                                        const grpc::ByteBuffer* request,
                                        grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* ModelReady(grpc::CallbackServerContext* context,
                                       const grpc::ByteBuffer* request,
                                       grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* ServerMetadata(grpc::CallbackServerContext* context,
                                           const grpc::ByteBuffer* request,
                                           grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* ModelMetadata(grpc::CallbackServerContext* context,
                                          const grpc::ByteBuffer* request,
                                          grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* RepositoryIndex(grpc::CallbackServerContext* context,
                                            const grpc::ByteBuffer* request,
                                            grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* RepositoryModelLoad(grpc::CallbackServerContext* context,
                                                const grpc::ByteBuffer* request,
                                                grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* RepositoryModelUnload(grpc::CallbackServerContext* context,
                                                  const grpc::ByteBuffer* request,
                                                  grpc::ByteBuffer* response) override;

 private:
  WireState& state_;
};

// Takes ModelInfer, before its message is in memory; every other name that no service has is
// UNIMPLEMENTED.
class ModelInferService final : public grpc::CallbackGenericService {
 public:
  // Owns: `state` must outlive the service.
  explicit ModelInferService(WireState& state) : state_(state) {}
  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override;

 private:
  WireState& state_;
};

}  // namespace sluice

#endif  // SLUICE_SERVER_OPEN_INFERENCE_SERVICE_H_
