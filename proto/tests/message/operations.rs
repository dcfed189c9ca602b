//! Strategies for the requests and replies of each operation.

use lockkeeper_proto::{
    AddWatchMode, OpCode, Request, Response, WatcherType,
    multi::{MultiOp, MultiReadOp, MultiReadRequest, MultiRequest, MultiResponse, MultiResult},
    records::*,
};
use proptest::{collection::vec, option, prelude::*, strategy::Union};

use super::records::*;

pub(super) fn request(op: OpCode) -> BoxedStrategy<Request> {
    match op {
        OpCode::CREATE => create().prop_map(Request::Create).boxed(),
        OpCode::CREATE2 => create().prop_map(Request::Create2).boxed(),
        OpCode::CREATE_CONTAINER => create().prop_map(Request::CreateContainer).boxed(),
        OpCode::CREATE_TTL => create_ttl().prop_map(Request::CreateTtl).boxed(),
        OpCode::DELETE => delete().prop_map(Request::Delete).boxed(),
        OpCode::EXISTS => record!(ExistsRequest {
            path: text(),
            watch: any::<bool>(),
        })
        .prop_map(Request::Exists)
        .boxed(),
        OpCode::GET_DATA => get_data().prop_map(Request::GetData).boxed(),
        OpCode::SET_DATA => set_data().prop_map(Request::SetData).boxed(),
        OpCode::GET_ACL => record!(GetAclRequest { path: text() })
            .prop_map(Request::GetAcl)
            .boxed(),
        OpCode::SET_ACL => record!(SetAclRequest {
            path: text(),
            acl: option::of(acls()),
            version: version(),
        })
        .prop_map(Request::SetAcl)
        .boxed(),
        OpCode::GET_CHILDREN => get_children().prop_map(Request::GetChildren).boxed(),
        OpCode::GET_CHILDREN2 => get_children().prop_map(Request::GetChildren2).boxed(),
        OpCode::GET_ALL_CHILDREN_NUMBER => record!(GetAllChildrenNumberRequest { path: text() })
            .prop_map(Request::GetAllChildrenNumber)
            .boxed(),
        OpCode::GET_EPHEMERALS => record!(GetEphemeralsRequest {
            prefix_path: option::of(text()),
        })
        .prop_map(Request::GetEphemerals)
        .boxed(),
        OpCode::SYNC => record!(SyncRequest { path: text() })
            .prop_map(Request::Sync)
            .boxed(),
        OpCode::PING => Just(Request::Ping(Empty {})).boxed(),
        OpCode::CHECK => check().prop_map(Request::Check).boxed(),
        OpCode::MULTI => vec(multi_op(), 0..5)
            .prop_map(|ops| Request::Multi(MultiRequest { ops }))
            .boxed(),
        OpCode::MULTI_READ => vec(multi_read_op(), 0..5)
            .prop_map(|ops| Request::MultiRead(MultiReadRequest { ops }))
            .boxed(),
        OpCode::RECONFIG => record!(ReconfigRequest {
            joining_servers: option::of(text()),
            leaving_servers: option::of(text()),
            new_members: option::of(text()),
            cur_config_id: any::<i64>(),
        })
        .prop_map(Request::Reconfig)
        .boxed(),
        OpCode::SET_WATCHES => set_watches().prop_map(Request::SetWatches).boxed(),
        OpCode::SET_WATCHES2 => set_watches2().prop_map(Request::SetWatches2).boxed(),
        OpCode::ADD_WATCH => record!(AddWatchRequest {
            path: text(),
            mode: any::<i32>().prop_map(AddWatchMode),
        })
        .prop_map(Request::AddWatch)
        .boxed(),
        OpCode::CHECK_WATCHES => record!(CheckWatchesRequest {
            path: text(),
            watcher_type: any::<i32>().prop_map(WatcherType),
        })
        .prop_map(Request::CheckWatches)
        .boxed(),
        OpCode::REMOVE_WATCHES => record!(RemoveWatchesRequest {
            path: text(),
            watcher_type: any::<i32>().prop_map(WatcherType),
        })
        .prop_map(Request::RemoveWatches)
        .boxed(),
        OpCode::AUTH => record!(AuthPacket {
            auth_type: any::<i32>(),
            scheme: text(),
            auth: buffer(),
        })
        .prop_map(Request::Auth)
        .boxed(),
        OpCode::SASL => record!(SaslRequest { token: buffer() })
            .prop_map(Request::Sasl)
            .boxed(),
        OpCode::WHO_AM_I => Just(Request::WhoAmI(Empty {})).boxed(),
        OpCode::CLOSE_SESSION => Just(Request::CloseSession(Empty {})).boxed(),
        other => panic!("no strategy for a request to {other}"),
    }
}

pub(super) fn response(op: OpCode) -> BoxedStrategy<Response> {
    let empty = |wrap: fn(Empty) -> Response| Just(wrap(Empty {})).boxed();
    match op {
        OpCode::CREATE => created().prop_map(Response::Create).boxed(),
        OpCode::CREATE2 => created2().prop_map(Response::Create2).boxed(),
        OpCode::CREATE_CONTAINER => created2().prop_map(Response::CreateContainer).boxed(),
        OpCode::CREATE_TTL => created2().prop_map(Response::CreateTtl).boxed(),
        OpCode::DELETE => empty(Response::Delete),
        OpCode::EXISTS => stat_only().prop_map(Response::Exists).boxed(),
        OpCode::GET_DATA => data().prop_map(Response::GetData).boxed(),
        OpCode::SET_DATA => stat_only().prop_map(Response::SetData).boxed(),
        OpCode::GET_ACL => record!(GetAclResponse {
            acl: vec(acl(), 0..4),
            stat: stat(),
        })
        .prop_map(Response::GetAcl)
        .boxed(),
        OpCode::SET_ACL => stat_only().prop_map(Response::SetAcl).boxed(),
        OpCode::GET_CHILDREN => children().prop_map(Response::GetChildren).boxed(),
        OpCode::GET_CHILDREN2 => record!(GetChildren2Response {
            children: texts(),
            stat: stat(),
        })
        .prop_map(Response::GetChildren2)
        .boxed(),
        OpCode::GET_ALL_CHILDREN_NUMBER => record!(GetAllChildrenNumberResponse {
            total_number: any::<i32>(),
        })
        .prop_map(Response::GetAllChildrenNumber)
        .boxed(),
        OpCode::GET_EPHEMERALS => record!(GetEphemeralsResponse {
            ephemerals: texts(),
        })
        .prop_map(Response::GetEphemerals)
        .boxed(),
        OpCode::SYNC => record!(SyncResponse { path: text() })
            .prop_map(Response::Sync)
            .boxed(),
        OpCode::PING => empty(Response::Ping),
        OpCode::CHECK => empty(Response::Check),
        OpCode::MULTI => results().prop_map(Response::Multi).boxed(),
        OpCode::MULTI_READ => results().prop_map(Response::MultiRead).boxed(),
        OpCode::RECONFIG => data().prop_map(Response::Reconfig).boxed(),
        OpCode::SET_WATCHES => empty(Response::SetWatches),
        OpCode::SET_WATCHES2 => empty(Response::SetWatches2),
        OpCode::ADD_WATCH => record!(ErrorResponse { err: error_code() })
            .prop_map(Response::AddWatch)
            .boxed(),
        OpCode::CHECK_WATCHES => empty(Response::CheckWatches),
        OpCode::REMOVE_WATCHES => empty(Response::RemoveWatches),
        OpCode::AUTH => empty(Response::Auth),
        OpCode::SASL => record!(SaslResponse { token: buffer() })
            .prop_map(Response::Sasl)
            .boxed(),
        OpCode::WHO_AM_I => {
            let info = record!(ClientInfo {
                auth_scheme: text(),
                user: text(),
            });
            vec(info, 0..4)
                .prop_map(|client_info| Response::WhoAmI(WhoAmIResponse { client_info }))
                .boxed()
        }
        OpCode::CLOSE_SESSION => empty(Response::CloseSession),
        other => panic!("no strategy for a reply to {other}"),
    }
}

fn multi_op() -> impl Strategy<Value = MultiOp> {
    Union::new([
        create().prop_map(MultiOp::Create).boxed(),
        create().prop_map(MultiOp::Create2).boxed(),
        create().prop_map(MultiOp::CreateContainer).boxed(),
        create_ttl().prop_map(MultiOp::CreateTtl).boxed(),
        delete().prop_map(MultiOp::Delete).boxed(),
        set_data().prop_map(MultiOp::SetData).boxed(),
        check().prop_map(MultiOp::Check).boxed(),
    ])
}

fn multi_read_op() -> impl Strategy<Value = MultiReadOp> {
    Union::new([
        get_data().prop_map(MultiReadOp::GetData).boxed(),
        get_children().prop_map(MultiReadOp::GetChildren).boxed(),
    ])
}

fn results() -> impl Strategy<Value = MultiResponse> {
    let result = Union::new([
        created().prop_map(MultiResult::Create).boxed(),
        created2().prop_map(MultiResult::Create2).boxed(),
        Just(MultiResult::Delete).boxed(),
        Just(MultiResult::Check).boxed(),
        stat_only().prop_map(MultiResult::SetData).boxed(),
        data().prop_map(MultiResult::GetData).boxed(),
        children().prop_map(MultiResult::GetChildren).boxed(),
        error_code().prop_map(MultiResult::Error).boxed(),
    ]);
    vec(result, 0..5).prop_map(|results| MultiResponse { results })
}
