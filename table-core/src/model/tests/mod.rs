mod etag;
mod key;
mod key_order;
mod properties;
mod property_dictionary;
mod serialize;
mod table_name;
mod ticks;
