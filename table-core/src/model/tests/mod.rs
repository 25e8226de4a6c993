mod etag;
mod key;
mod key_order;
mod properties;
mod table_name;
mod ticks;
