// Paths of objects: s3://bucket/key, https://host[:port]/path.
#pragma once

#include <string>
#include <string_view>

namespace composer {

/// Whether the text is a path with a scheme ("word://..."), which no local path is.
bool is_remote(std::string_view text);

/// The path for messages: a local path as it is, a remote one as RemotePath::text(). Throws like
/// RemotePath.
std::string shown_path(const std::string& path);

/// A path of an object. A key of s3:// is the object's own name (UTF-8). A key of a web server is
/// the part of the URL behind the host's '/', percent-encoded, with the query.
class RemotePath {
 public:
  enum class Scheme { s3, https, http };

  /// UserError, whose message hides userinfo and query, when the text is no path of a store.
  explicit RemotePath(std::string_view text);

  Scheme scheme() const { return scheme_; }
  /// The bucket, or host[:port].
  const std::string& host() const { return host_; }
  const std::string& key() const { return key_; }
  /// The user:password of a URL, as written; empty without one.
  const std::string& userinfo() const { return userinfo_; }

  /// The offset of the key's query; the key's size without one.
  size_t query_offset() const;
  /// Whether the key is empty or ends in '/' (before a query).
  bool is_folder() const;
  /// The last part of the key, decoded: the name of a local copy. Empty for a folder.
  std::string name() const;
  /// The path of the object `name` (plain text, which may have '/') in this folder. Adds a '/'
  /// between them if it is missing, and keeps a query at the end.
  RemotePath operator/(std::string_view name) const;
  /// The path of another key of the same store, as in ObjectInfo::key.
  RemotePath with_key(std::string key) const;

  /// The path for messages, logs and records: without userinfo and query, which may be secrets.
  std::string text() const;
  /// The path for caches: text() and a hash of the query's parameters other than signatures and
  /// tokens, if there are any.
  std::string identity() const;

  bool operator==(const RemotePath&) const = default;

 private:
  RemotePath() = default;

  Scheme scheme_ = Scheme::s3;
  std::string host_, key_, userinfo_;
};

/// The text with %XX for all but RFC 3986's unreserved characters and those of `also`.
std::string percent_encoded(std::string_view text, std::string_view also = "");
/// The text with the byte for each "%XX"; anything else stays.
std::string percent_decoded(std::string_view text);

/// The path with its userinfo and query, which may be secrets: RemotePath(address_of(path)) ==
/// path. Use it to open the object, never in a message or a file.
std::string address_of(const RemotePath& path);

/// The address of `name`, as a user writes it, in a folder: "%20" in the name stays, and the
/// folder's query goes to the end unless the name has its own.
std::string address_below(const std::string& folder, const std::string& name);

/// What is wrong with the path of a local folder that is to be made, for people; empty when nothing
/// is. Refused are paths of stores and web servers, and a ~ or $NAME that no shell has replaced.
std::string local_folder_problem(const std::string& folder);

}  // namespace composer
