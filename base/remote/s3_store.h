// A bucket of Amazon S3, or of a compatible store.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>

#include "base/remote/credentials.h"
#include "base/remote/object_store.h"
#include "base/remote/signature.h"
#include "base/remote/store_requests.h"

namespace composer {

/// The server of buckets.
struct S3Endpoint {
  std::string endpoint_url;  ///< without a '/' at its end; empty: Amazon's
  std::string region;        ///< empty: the bucket's own region, from the store's answers

  bool operator==(const S3Endpoint&) const = default;
};

/// The endpoint of the options, else of the environment (AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL,
/// AWS_REGION, AWS_DEFAULT_REGION), else of the profile of ~/.aws. UserError when it is no URL.
S3Endpoint s3_endpoint(const RemoteOptions& options = {});

class S3Store : public ObjectStore {
 public:
  S3Store(std::string bucket, S3Endpoint endpoint, CredentialSource& credentials,
          Patience patience = {});

  std::optional<ObjectInfo> stat(const std::string& key) override;
  void read(const ObjectInfo& info, uint64_t begin, std::span<uint8_t> into) override;
  std::vector<ObjectInfo> list(const std::string& prefix) override;
  std::vector<std::string> list_folder(const std::string& prefix) override;
  void write(const std::string& key, const std::filesystem::path& file) override;
  void write(const std::string& key, std::span<const uint8_t> bytes) override;
  void remove(const std::string& key) override;

 private:
  struct Call {
    std::string method = "GET", key;
    TextPairs query = {}, headers = {};
    std::span<const uint8_t> body = {};
    std::span<uint8_t> into = {};
    double quiet_seconds = 30;
  };
  /// Reads bytes [begin, begin + into.size()) of the data to write.
  using ReadBytes = std::function<void(uint64_t begin, std::span<uint8_t> into)>;

  HttpReply send(const Call& call);
  /// The values with which a request was signed.
  struct Signing {
    Credentials by;
    std::string region;
    int64_t seconds_ahead = 0;
  };
  HttpRequest signed_request(const Call& call, const std::string& hash, Signing& signing);
  bool may_pass(const HttpReply& reply, const Signing& signing);
  /// send() that refuses any status but 2xx.
  HttpReply expect(const Call& call);
  [[noreturn]] void refuse(const Call& call, const HttpReply& reply);

  void list_pages(const std::string& prefix, const std::string& delimiter,
                  const std::function<void(struct ListingPage&)>& add);

  void write_parts(const std::string& key, uint64_t bytes, const ReadBytes& read_bytes);
  void complete(const std::string& key, const std::string& upload, uint64_t bytes,
                const std::vector<std::string>& etags);

  std::string text(const std::string& key) const;
  std::string region();

  const std::string bucket_;
  const S3Endpoint endpoint_;
  CredentialSource& credentials_;
  StoreRequests requests_;
  std::mutex mutex_;
  std::string told_region_;                 ///< the bucket's region, from the store's answers
  std::atomic<int64_t> seconds_ahead_ = 0;  ///< the store's clock minus this machine's
  std::atomic<bool> bucket_seen_ = false;
};

}  // namespace composer
