//! Arrow IPC files and streams: messages are checked against the available bytes before arrow-rs decodes them.

use std::io::{BufReader, Read};

use arrow_array::RecordBatch;
use arrow_buffer::{Buffer, MutableBuffer};
use arrow_ipc::convert::try_fb_to_schema;
use arrow_ipc::{Block, Message, MessageHeader, root_as_footer, root_as_message};
use arrow_schema::{ArrowError, SchemaRef};
use femtobarn_rntuple::encoding::LARGEST_RATIO;

use super::ipc_batch::Decoder;
use super::table_file::TableFile;

/// The first and last bytes of a file.
pub(super) const MAGIC: &[u8; 6] = b"ARROW1";
/// Length of the footer's size and the magic after it.
const TRAILER: u64 = 10;
/// The first bytes of a message in the current format.
const CONTINUATION: [u8; 4] = [0xff; 4];
/// Length of the continuation and of the metadata's size.
const PREFIX: usize = 8;
/// The value before an uncompressed buffer, instead of its uncompressed length.
const PLAIN: i64 = -1;

type Found<T> = Result<T, ArrowError>;

fn wrong(
    what: &str,
    expected: impl std::fmt::Display,
    found: impl std::fmt::Display,
) -> ArrowError {
    ArrowError::IpcError(format!("{what}: expected {expected}, found {found}"))
}

/// The batches of a file or stream.
pub(super) struct Batches {
    pub schema: SchemaRef,
    decoder: Decoder,
    messages: Messages,
}

enum Messages {
    /// The remaining blocks of a file, the next one last.
    File(TableFile, Vec<Block>),
    Stream(Box<Stream>),
}

struct Stream {
    file: BufReader<TableFile>,
    n_bytes: u64,
}

impl Batches {
    /// The batches of a file with a footer.
    pub fn of_file(file: TableFile) -> Found<Self> {
        let n_bytes = file.n_bytes();
        let room = n_bytes.saturating_sub(TRAILER + MAGIC.len() as u64);
        let trailer = file.read_range(n_bytes.saturating_sub(TRAILER)..n_bytes)?;
        let Some((size, MAGIC)) = trailer.split_first_chunk::<4>().map(|(size, magic)| {
            let magic = magic.first_chunk::<6>().unwrap_or(&[0; 6]);
            (i32::from_le_bytes(*size), magic)
        }) else {
            return Err(wrong("end of the file", "ARROW1", "something else"));
        };
        let size = u64::try_from(size).ok().filter(|&size| size <= room);
        let size =
            size.ok_or_else(|| wrong("size of the footer", format!("at most {room}"), "more"))?;
        let end = n_bytes.saturating_sub(TRAILER);
        let footer = file.read_range(end.saturating_sub(size)..end)?;
        let footer = root_as_footer(&footer)
            .map_err(|error| ArrowError::ParseError(format!("the footer is damaged: {error}")))?;
        let schema = footer.schema();
        let schema = schema.ok_or_else(|| wrong("schema in the footer", "one", "none"))?;
        if !schema.endianness().equals_to_target_endianness() {
            return Err(wrong("byte order", "little-endian", "big-endian"));
        }
        let schema = SchemaRef::new(try_fb_to_schema(schema)?);
        let mut decoder = Decoder::new(schema.clone(), footer.version());
        let mut blocks: Vec<Block> = footer.recordBatches().iter().flatten().copied().collect();
        let dictionaries: Vec<Block> = footer.dictionaries().iter().flatten().copied().collect();
        check_blocks(blocks.iter().chain(&dictionaries), n_bytes)?;
        for block in &dictionaries {
            let bytes = block_of(&file, block)?;
            check(&bytes, block)?;
            decoder.dictionary(&parse(&bytes, block)?, block, &bytes)?;
        }
        blocks.reverse();
        Ok(Self {
            schema,
            decoder,
            messages: Messages::File(file, blocks),
        })
    }

    /// The batches of a stream, which has no footer.
    pub fn of_stream(file: TableFile, buffer: usize) -> Found<Self> {
        let mut stream = Box::new(Stream {
            n_bytes: file.n_bytes(),
            file: BufReader::with_capacity(buffer, file),
        });
        let first = stream.next()?;
        let (message, block) = first.ok_or_else(|| wrong("first message", "a schema", "none"))?;
        let message = parse(&message, &block)?;
        let schema = message.header_as_schema();
        let schema = schema.ok_or_else(|| wrong("first message", "a schema", "another"))?;
        if !schema.endianness().equals_to_target_endianness() {
            return Err(wrong("byte order", "little-endian", "big-endian"));
        }
        let schema = SchemaRef::new(try_fb_to_schema(schema)?);
        Ok(Self {
            decoder: Decoder::new(schema.clone(), message.version()),
            schema,
            messages: Messages::Stream(stream),
        })
    }

    fn batch(&mut self) -> Found<Option<RecordBatch>> {
        loop {
            let next = match &mut self.messages {
                Messages::File(file, blocks) => match blocks.pop() {
                    Some(block) => Some((block_of(file, &block)?, block)),
                    None => None,
                },
                Messages::Stream(stream) => stream.next()?,
            };
            let Some((bytes, block)) = next else {
                return Ok(None);
            };
            let kind = check(&bytes, &block)?;
            let message = parse(&bytes, &block)?;
            match kind {
                MessageHeader::DictionaryBatch => {
                    self.decoder.dictionary(&message, &block, &bytes)?;
                }
                MessageHeader::NONE => {}
                _ => return self.decoder.batch(&message, &block, &bytes).map(Some),
            }
        }
    }
}

impl Iterator for Batches {
    type Item = Found<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        self.batch().transpose()
    }
}

/// The lengths of a block's metadata and body.
fn lengths(block: &Block) -> Found<(u64, u64)> {
    let meta = u64::try_from(block.metaDataLength());
    let body = u64::try_from(block.bodyLength());
    match (meta, body) {
        (Ok(meta), Ok(body)) if meta >= PREFIX as u64 => Ok((meta, body)),
        _ => Err(wrong("size of a message", "8 bytes or more", "fewer")),
    }
}

/// Checks that blocks are inside the file and do not overlap.
fn check_blocks<'a>(blocks: impl Iterator<Item = &'a Block>, n_bytes: u64) -> Found<()> {
    let mut left = n_bytes;
    for block in blocks {
        let (meta, body) = lengths(block)?;
        let size = meta.saturating_add(body);
        let end = u64::try_from(block.offset()).ok();
        let end = end.and_then(|offset| offset.checked_add(size));
        let rest = left.checked_sub(size);
        let (Some(rest), true) = (rest, end.is_some_and(|end| end <= n_bytes)) else {
            return Err(wrong(
                "position of a message",
                format!("within {n_bytes} bytes and not used before"),
                format!("{size} bytes at {}", block.offset()),
            ));
        };
        left = rest;
    }
    Ok(())
}

/// The bytes of a checked block.
fn block_of(file: &TableFile, block: &Block) -> Found<Buffer> {
    let (meta, body) = lengths(block)?;
    let start = u64::try_from(block.offset()).unwrap_or(u64::MAX);
    let end = start.saturating_add(meta).saturating_add(body);
    let bytes = file.read_range(start..end)?;
    if bytes.len() as u64 != end - start {
        return Err(wrong("size of a message", end - start, bytes.len()));
    }
    Ok(Buffer::from(bytes))
}

impl Stream {
    /// The next message and its lengths; `None` at the end.
    fn next(&mut self) -> Found<Option<(Buffer, Block)>> {
        let mut word = [0; 4];
        match self.file.read_exact(&mut word) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(None),
            Err(error) => return Err(error.into()),
        }
        if word == CONTINUATION {
            self.file.read_exact(&mut word)?;
        }
        let n_bytes = self.n_bytes;
        let size = i32::from_le_bytes(word);
        let fits = |size: &usize| *size as u64 <= n_bytes;
        let size = usize::try_from(size).ok().filter(fits);
        let size = size.ok_or_else(|| {
            let reason = "not a file or stream of Arrow IPC, or damaged";
            ArrowError::ParseError(reason.to_owned())
        })?;
        if size == 0 {
            return Ok(None);
        }
        let mut metadata = vec![0; size];
        self.file.read_exact(&mut metadata)?;
        let message = root_as_message(&metadata)
            .map_err(|error| ArrowError::ParseError(format!("a message is damaged: {error}")))?;
        let body = usize::try_from(message.bodyLength()).ok().filter(fits);
        let body = body.ok_or_else(|| {
            wrong(
                "size of a message",
                format!("at most {n_bytes}"),
                message.bodyLength(),
            )
        })?;
        let (meta, length) = (PREFIX + size, message.bodyLength());
        let mut all = MutableBuffer::from_len_zeroed(meta + body);
        let (head, rest) = all.as_slice_mut().split_at_mut(PREFIX);
        let (own, behind) = rest.split_at_mut(size);
        head.fill(0xff);
        own.copy_from_slice(&metadata);
        self.file.read_exact(behind)?;
        let meta = i32::try_from(meta).map_err(|_| wrong("size of a message", "less", meta))?;
        Ok(Some((all.into(), Block::new(0, meta, length))))
    }
}

/// The metadata of a message.
fn parse<'m>(message: &'m [u8], block: &Block) -> Found<Message<'m>> {
    let end = usize::try_from(block.metaDataLength()).unwrap_or(0);
    let skipped = if message.starts_with(&CONTINUATION) {
        PREFIX
    } else {
        PREFIX / 2
    };
    let metadata = message.get(skipped..end).unwrap_or_default();
    root_as_message(metadata)
        .map_err(|error| ArrowError::ParseError(format!("a message is damaged: {error}")))
}

/// Checks that the buffers of a message are inside its body, and can hold the claimed sizes. Returns the kind
/// of the message.
fn check(bytes: &Buffer, block: &Block) -> Found<MessageHeader> {
    let message = parse(bytes, block)?;
    let (meta, body_length) = lengths(block)?;
    let kind = message.header_type();
    let batch = match kind {
        MessageHeader::DictionaryBatch => {
            let dictionary = message.header_as_dictionary_batch();
            dictionary.and_then(|dictionary| dictionary.data())
        }
        _ => message.header_as_record_batch(),
    };
    let Some(batch) = batch else { return Ok(kind) };
    let most = body_length
        .saturating_add(meta)
        .saturating_mul(8 * LARGEST_RATIO);
    let rows = u64::try_from(batch.length()).ok();
    if rows.is_none_or(|rows| rows > most) {
        return Err(wrong(
            "rows of a batch",
            format!("at most {most}"),
            batch.length(),
        ));
    }
    for node in batch.nodes().iter().flatten() {
        let length = u64::try_from(node.length())
            .ok()
            .filter(|&length| length <= most);
        if length.is_none() || node.null_count() < 0 || node.null_count() > node.length() {
            let found = format!("{} with {} missing", node.length(), node.null_count());
            return Err(wrong(
                "values of a column",
                format!("at most {most}"),
                found,
            ));
        }
    }
    let body = usize::try_from(meta)
        .ok()
        .and_then(|meta| bytes.get(meta..));
    for buffer in batch.buffers().iter().flatten() {
        let start = usize::try_from(buffer.offset()).ok();
        let length = usize::try_from(buffer.length()).ok();
        let range = start
            .zip(length)
            .and_then(|(start, length)| Some(start..start.checked_add(length)?));
        let own = range.and_then(|range| body.and_then(|body| body.get(range)));
        let own = own.ok_or_else(|| {
            let found = format!("{} bytes at {}", buffer.length(), buffer.offset());
            wrong(
                "buffer of a message",
                format!("a range within {body_length} bytes"),
                found,
            )
        })?;
        if batch.compression().is_some() {
            check_compressed(own)?;
        }
    }
    Ok(kind)
}

/// Checks that a compressed buffer can hold the claimed size.
fn check_compressed(buffer: &[u8]) -> Found<()> {
    if buffer.is_empty() {
        return Ok(());
    }
    let Some((length, stored)) = buffer.split_first_chunk::<8>() else {
        return Err(wrong("compressed buffer", "8 bytes or more", buffer.len()));
    };
    let length = i64::from_le_bytes(*length);
    let most = (stored.len() as u64).saturating_mul(LARGEST_RATIO);
    match u64::try_from(length) {
        Ok(length) if length <= most => Ok(()),
        Err(_) if length == PLAIN => Ok(()),
        _ => Err(wrong(
            "uncompressed buffer",
            format!("at most {most} bytes"),
            length,
        )),
    }
}
