#include "tests/testing/protobuf_json.h"

#include <memory>

#include "google/protobuf/util/json_util.h"

namespace attnd::testing {

using google::protobuf::Message;
using google::protobuf::Value;

std::optional<std::map<std::string, Value>> ParseJson(const std::string& text) {
  // Made by the library, which knows its size.
  const std::unique_ptr<Message> object(google::protobuf::Struct::default_instance().New());
  if (!google::protobuf::util::JsonStringToMessage(text, object.get()).ok()) return std::nullopt;
  std::map<std::string, Value> members;
  const auto* const fields = object->GetDescriptor()->FindFieldByName("fields");
  for (int i = 0; i < object->GetReflection()->FieldSize(*object, fields); ++i) {
    const Message& entry = object->GetReflection()->GetRepeatedMessage(*object, fields, i);
    const auto* const key = fields->message_type()->FindFieldByName("key");
    const auto* const value = fields->message_type()->FindFieldByName("value");
    members[entry.GetReflection()->GetString(entry, key)].CopyFrom(
        entry.GetReflection()->GetMessage(entry, value));
  }
  return members;
}

}  // namespace attnd::testing
