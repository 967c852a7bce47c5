# The wire: request codec, gRPC services, metrics. Included by CMakeLists.txt beside it.
find_package(Protobuf REQUIRED)
find_package(gRPC CONFIG REQUIRED)
find_package(OpenSSL REQUIRED)
find_package(ZLIB REQUIRED)
find_package(prometheus-cpp REQUIRED)
find_package(civetweb REQUIRED)

sluice_library(infer_codec
  SOURCES infer_codec.cc request_size.cc typed_contents.cc
  HEADERS infer_codec.h request_size.h typed_contents.h
  DEPENDS sluice::base sluice::graph sluice::proto absl::status absl::statusor absl::strings
          absl::str_format)

sluice_test(infer_codec_test
  SOURCES infer_codec_test.cc request_size_test.cc
  DEPENDS sluice::infer_codec)

sluice_fuzz_target(infer_codec_fuzz
  SOURCES infer_codec_fuzz.cc
  DEPENDS sluice::infer_codec
  CORPUS ${CMAKE_CURRENT_SOURCE_DIR}/fuzz_corpus/infer_codec)

sluice_library(server
  SOURCES answer_buffer.cc control_call.cc front_door.cc grpc_log.cc grpc_server.cc
          health_service.cc http2_guard.cc infer_call.cc listen_address.cc listen_socket.cc message_gate.cc
          metrics_collector.cc metrics_server.cc metrics_table.cc open_inference_service.cc
          process_usage.cc relayed_connection.cc sluice_service.cc status_page.cc
          system_pressure.cc
          tls_credentials.cc tls_identity.cc wire_message.cc
  HEADERS answer_buffer.h control_call.h front_door.h grpc_log.h grpc_server.h grpc_status.h
          health_service.h http2_guard.h infer_call.h listen_address.h listen_socket.h message_gate.h
          metrics_collector.h metrics_server.h metrics_table.h open_inference_service.h
          process_usage.h receiving_connections.h relayed_connection.h sluice_service.h status_page.h
          system_pressure.h tls_credentials.h
          tls_identity.h wire_message.h
          wire_state.h wire_statistics.h
  DEPENDS sluice::infer_codec sluice::config prometheus-cpp::core $<TARGET_NAME_IF_EXISTS:sluice_service>
  PRIVATE_DEPENDS gRPC::grpc++_reflection civetweb::civetweb OpenSSL::Crypto
                  spdlog::spdlog ZLIB::ZLIB)
set_property(SOURCE open_inference_service.cc metrics_collector.cc status_page.cc APPEND PROPERTY
  COMPILE_DEFINITIONS SLUICE_VERSION="${PROJECT_VERSION}")

sluice_test(wire_parts_test
  SOURCES wire_parts_test.cc front_door_test.cc grpc_log_test.cc http2_guard_test.cc
          message_gate_test.cc
          tls_identity_test.cc
  DEPENDS sluice::server OpenSSL::Crypto)

sluice_test(metrics_test
  SOURCES metrics_test.cc
  DEPENDS sluice::server)
target_compile_definitions(metrics_test PRIVATE SLUICE_SOURCE_DIR="${PROJECT_SOURCE_DIR}")

sluice_test(wire_test
  SOURCES wire_test.cc wire_health_test.cc
  DEPENDS sluice::server
  LABELS e2e)
