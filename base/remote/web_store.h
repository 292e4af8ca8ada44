// Files of a web server, which can be read but not written.
#pragma once

#include "base/remote/object_store.h"
#include "base/remote/store_requests.h"

namespace composer {

class WebStore : public ObjectStore {
 public:
  /// path: any path of the server.
  explicit WebStore(const RemotePath& path, Patience patience = {});

  std::optional<ObjectInfo> stat(const std::string& key) override;
  void read(const ObjectInfo& info, uint64_t begin, std::span<uint8_t> into) override;
  std::vector<ObjectInfo> list(const std::string& prefix) override;
  std::vector<std::string> list_folder(const std::string& prefix) override;
  void write(const std::string& key, const std::filesystem::path& file) override;
  void write(const std::string& key, std::span<const uint8_t> bytes) override;
  void remove(const std::string& key) override;

 private:
  HttpReply send(const std::string& method, const std::string& key,
                 const std::vector<std::pair<std::string, std::string>>& headers,
                 std::span<uint8_t> into);
  /// stat() by a GET of the first byte, when HEAD is refused or has no length.
  std::optional<ObjectInfo> stat_by_read(const std::string& key);
  [[noreturn]] void refuse(const std::string& method, const std::string& key,
                           const HttpReply& reply);
  [[noreturn]] void refuse_listing(const std::string& prefix);
  [[noreturn]] void refuse_writing(const std::string& key);
  std::string text(const std::string& key) const;

  const RemotePath server_;
  StoreRequests requests_;
};

}  // namespace composer
