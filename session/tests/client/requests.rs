//! What a request says on the wire.

use std::time::Duration;

use lockkeeper_proto::{ErrorCode, Request};
use lockkeeper_test_support::scripted::Server;
use tokio::sync::mpsc::unbounded_channel;

use super::waiting::soon;

/// The list was left out, and so the request was one that adds and removes servers: none.
#[tokio::test]
async fn an_empty_list_of_members_is_sent() {
    let (tell, mut told) = unbounded_channel();
    let server = Server::bad(usize::MAX, move |mut peer| {
        let tell = tell.clone();
        async move {
            peer.handshake().await;
            while let Some((xid, request)) = peer.request().await {
                if let Request::Reconfig(asked) = request {
                    let lists = (asked.joining_servers, asked.leaving_servers);
                    let _ = tell.send((lists, asked.new_members));
                }
                peer.refuse(xid, ErrorCode::BAD_ARGUMENTS).await;
            }
        }
    })
    .await;
    let client = server.client(Duration::from_secs(20)).await.unwrap();
    let refused = soon(client.reconfig_to_members("", None)).await;
    assert_eq!(refused.unwrap_err().code(), Some(ErrorCode::BAD_ARGUMENTS));
    let empty = Some(String::new());
    assert_eq!(soon(told.recv()).await, Some(((None, None), empty)));
    // A list of changes that is empty is none.
    soon(client.reconfig("", "3", None)).await.unwrap_err();
    let leaving = Some("3".to_owned());
    assert_eq!(soon(told.recv()).await, Some(((None, leaving), None)));
}
