use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chrono::Utc;
use hmac::{Hmac, KeyInit, Mac};
use reqwest::{Client, Method, RequestBuilder, Response};
use serde::Deserialize;
use sha2::Sha256;
use uuid::Uuid;

use crate::employee::{Plain, SALES, row_key};
use crate::side::Side;

const JSON: &str = "application/json";

/// A client written by hand on `reqwest`: its connection pool, SharedKeyLite, `serde_json` into plain structs,
/// minimal metadata.
#[derive(Clone)]
pub(crate) struct Direct {
    client: Client,
    endpoint: String,
    table: String,
    account: &'static str,
    mac: Hmac<Sha256>,
}

#[derive(Deserialize)]
struct Page {
    value: Vec<Plain>,
}

impl Direct {
    pub(crate) fn new(endpoint: &str, (account, key): (&'static str, &str), table: &str) -> Self {
        let key = STANDARD.decode(key).unwrap();
        Self {
            client: Client::builder().no_proxy().build().expect("a client"),
            endpoint: endpoint.to_owned(),
            table: table.to_owned(),
            account,
            mac: Hmac::new_from_slice(&key).unwrap(),
        }
    }

    fn request(&self, method: Method, path: &str, query: &str) -> RequestBuilder {
        let date = Utc::now().format("%a, %d %b %Y %H:%M:%S GMT").to_string();
        let mut mac = self.mac.clone();
        mac.update(format!("{date}\n/{0}/{0}/{path}", self.account).as_bytes());
        let signature = STANDARD.encode(mac.finalize().into_bytes());
        self.client
            .request(method, format!("{}/{path}{query}", self.endpoint))
            .header(
                "authorization",
                format!("SharedKeyLite {}:{signature}", self.account),
            )
            .header("x-ms-date", date)
            .header("x-ms-version", "2020-12-06")
            .header("dataserviceversion", "3.0")
            .header("accept", "application/json;odata=minimalmetadata")
    }

    fn batch(&self, boundary: &str, rows: &[Plain]) -> String {
        let mut body =
            format!("--{boundary}\r\nContent-Type: multipart/mixed; boundary=c{boundary}\r\n\r\n");
        for row in rows {
            write!(
                body,
                "--c{boundary}\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n\
                 POST {}/{} HTTP/1.1\r\nAccept: application/json;odata=minimalmetadata\r\n\
                 Content-Type: {JSON}\r\nPrefer: return-no-content\r\nDataServiceVersion: 3.0\r\n\r\n{}\r\n",
                self.endpoint,
                self.table,
                serde_json::to_string(row).unwrap()
            )
            .unwrap();
        }
        write!(body, "--c{boundary}--\r\n--{boundary}--\r\n").unwrap();
        body
    }
}

fn header(response: &Response, name: &str) -> Option<String> {
    Some(response.headers().get(name)?.to_str().unwrap().to_owned())
}

impl Side for Direct {
    type Row = Plain;

    fn row(partition: &str, number: u32) -> Plain {
        Plain::new(partition, number)
    }

    async fn get(&self, number: u32) {
        let row_key = row_key(number);
        let path = format!("{}(PartitionKey='{SALES}',RowKey='{row_key}')", self.table);
        let response = self.request(Method::GET, &path, "").send().await.unwrap();
        assert_eq!(response.status(), 200);
        let read: Plain = serde_json::from_slice(&response.bytes().await.unwrap()).unwrap();
        assert_eq!(read.row_key, row_key);
    }

    async fn insert(&self, row: &Plain) {
        let request = self.request(Method::POST, &self.table, "");
        let request = request
            .header("content-type", JSON)
            .header("prefer", "return-no-content");
        let response = request
            .body(serde_json::to_vec(row).unwrap())
            .send()
            .await
            .unwrap();
        assert_eq!(response.status(), 204);
    }

    async fn group(&self, _: &str, rows: &[Plain]) {
        let boundary = format!("batch_{}", Uuid::new_v4());
        let request = self.request(Method::POST, "$batch", "");
        let request = request.header(
            "content-type",
            format!("multipart/mixed; boundary={boundary}"),
        );
        let response = request
            .body(self.batch(&boundary, rows))
            .send()
            .await
            .unwrap();
        assert_eq!(response.status(), 202);
        let text = response.text().await.unwrap();
        let statuses = text.lines().filter(|line| line.starts_with("HTTP/1.1 "));
        assert_eq!(
            statuses
                .filter(|line| line.starts_with("HTTP/1.1 204"))
                .count(),
            rows.len()
        );
    }

    async fn scan(&self) -> usize {
        let (path, filter) = (
            format!("{}()", self.table),
            format!("?$filter=PartitionKey%20eq%20'{SALES}'"),
        );
        let (mut rows, mut next) = (Vec::new(), String::new());
        loop {
            let response = self
                .request(Method::GET, &path, &format!("{filter}{next}"))
                .send()
                .await
                .unwrap();
            assert_eq!(response.status(), 200);
            let partition = header(&response, "x-ms-continuation-nextpartitionkey");
            let row = header(&response, "x-ms-continuation-nextrowkey");
            let page: Page = serde_json::from_slice(&response.bytes().await.unwrap()).unwrap();
            rows.extend(page.value);
            let Some((partition, row)) = partition.zip(row) else {
                return rows.len();
            };
            next = format!("&NextPartitionKey={partition}&NextRowKey={row}");
        }
    }
}
