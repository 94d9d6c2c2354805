// Documents and how they are being read. Asks the server itself, so it goes on after a reload or a restart.
import { useEffect, useRef, useState } from 'react'

const FINAL = ['complete', 'partial', 'failed', 'gone']
const TONES = { complete: 'sure', partial: 'unsure', failed: 'bad', read: 'sure', low_confidence: 'unsure' }

const labels = window.peritoLabels[document.documentElement.lang] || window.peritoLabels.en

export default function Documents() {
  const { ids = [], names = {}, all = false, rejected = [] } = props
  const [documents, setDocuments] = useState(null)
  const [shown, setShown] = useState(20)
  const [problem, setProblem] = useState('')
  const [round, setRound] = useState(0)
  const known = useRef({})

  useEffect(() => {
    let stopped = false
    let timer
    let waited = 0
    const look = async () => {
      let next = 5000
      try {
        const response = await fetch(
          all ? '/api/documents' : `/api/documents?with_parts=true&ids=${encodeURIComponent(ids.join(','))}`
        )
        if (!response.ok) throw new Error((await response.json()).error?.message || response.statusText)
        const found = (await response.json()).documents
        if (stopped) return
        found.forEach((document) => (known.current[document.id] = true))
        setProblem('')
        setDocuments(all ? newestFirst(found) : inFamilies(ids, names, found))
        const busy = found.some((document) => !FINAL.includes(document.status) || document.chunks_embedded < document.chunks)
        if (!busy) return
        waited += 1
        next = waited >= 60 || found.length >= 100 ? 4000 : waited < 20 ? 600 : 1500
      } catch (error) {
        if (stopped) return
        setProblem(String(error.message || error))
      }
      timer = setTimeout(look, document.hidden ? 10000 : next)
    }
    if (all || ids.length) look()
    return () => {
      stopped = true
      clearTimeout(timer)
    }
  }, [round, ids.join(',')])

  const again = () => setRound(round + 1)
  const list = documents || []
  return (
    <div className="perito-card">
      {all && documents && !list.length ? <p className="perito-note">{labels.none}</p> : null}
      <ul aria-label={labels.documents}>
        {list.slice(0, shown).map((one) => (
          <li key={one.id} className="perito-document" data-part={one.depth > 0}>
            <Row one={one} again={again} all={all} />
          </li>
        ))}
        {rejected.map((one) => (
          <li key={one.key} className="perito-document">
            <Rejected one={one} />
          </li>
        ))}
      </ul>
      {list.length > shown ? (
        <p className="perito-buttons" style={{ marginTop: '.5rem' }}>
          <button type="button" className="perito-button" onClick={() => setShown(list.length)}>
            {labels.all.replace('{count}', list.length)}
          </button>
        </p>
      ) : null}
      {problem ? <p className="perito-error" role="alert">{problem}</p> : null}
    </div>
  )
}

const newestFirst = (found) => [...found].sort((a, b) => (b.created || '').localeCompare(a.created || ''))
// A document, and below it what was found in it: a mail's attachments, an archive's files.
const withParts = (id, found, ids, depth = 0) => {
  const one = found.find((document) => document.id === id)
  if (!one) return null
  const parts = found.filter((document) => document.parent === id && !ids.includes(document.id))
  return [{ ...one, depth }, ...parts.reverse().flatMap((part) => withParts(part.id, found, ids, depth + 1))]
}
// Parts whose file of origin is not among these (found elsewhere before, or handed in by themselves) come last.
const inFamilies = (ids, names, found) => {
  const there = new Set(found.map((document) => document.id))
  const others = found.filter((document) => !ids.includes(document.id) && !there.has(document.parent)).reverse()
  return [
    ...ids.flatMap((id) => withParts(id, found, ids) || [gone(id, names[id])]),
    ...others.flatMap((one) => withParts(one.id, found, ids, ids.length === 1 ? 1 : 0))
  ]
}
// What is kept in English, a sentence at a time in the person's language: as assistant/web/sentences.py does it.
const MOST_PIECES = 6
const PATTERNS = { n: '\\d+', pages: '[\\d ,…]+' }
const pattern = (english) => new RegExp('^(?:' + english.split(/\{(\w+)\}/).map((text, index) =>
  index % 2 ? `(?<${text}>${PATTERNS[text] || '.+?'})` : text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')).join('') + ')$', 's')
const forms = Object.entries(labels.sentences).map(([english, form]) => [pattern(english), form])
const whole = (sentence) => {
  for (const [fits, form] of forms) {
    const found = fits.exec(sentence)
    if (found) return form.replace(/\{(\w+)\}/g, (_, key) => (key === 'said' ? words(found.groups.said) : found.groups[key]))
  }
}
const within = (said) => {
  const known = whole(`${said}.`)
  if (known) return known.replace(/\.$/, '')
  const capital = /^\p{Ll}/u.test(said) && whole(`${said[0].toUpperCase()}${said.slice(1)}.`)
  return capital ? capital[0].toLowerCase() + capital.slice(1).replace(/\.$/, '') : undefined
}
const part = (said) => whole(said) ?? within(said)
const words = (said) => {
  const parts = said.split('; ').map(part)
  return parts.includes(undefined) ? part(said) ?? said : parts.join('; ')
}
const told = (kept) => {
  const pieces = (kept || '').split(/(?<=[.!?])\s+/)
  const shown = []
  for (let place = 0, end; place < pieces.length; place = end) {
    let known
    for (end = place + 1; end <= Math.min(place + MOST_PIECES, pieces.length); end++) {
      known = whole(pieces.slice(place, end).join(' '))
      if (known !== undefined) break
    }
    if (known === undefined) end = place + 1
    shown.push(known ?? pieces[place])
  }
  return shown.join(' ')
}
const gone = (id, name) => ({ id, name: name || id, status: 'gone', pages: 0, pages_done: 0, readers: {} })

function Row({ one, again, all }) {
  const [pages, setPages] = useState(null)
  const [sure, setSure] = useState(false)
  const [busy, setBusy] = useState(false)
  const [problem, setProblem] = useState('')
  const reading = !FINAL.includes(one.status)
  const share = one.pages ? Math.round((100 * one.pages_done) / one.pages) : 0

  const loadPages = async () => {
    const response = await fetch(`/api/documents/${one.id}`)
    if (response.ok) setPages((await response.json()).pages)
  }
  useEffect(() => {
    if (pages) loadPages()
  }, [one.pages_done, one.status])

  const change = async (path, method) => {
    setBusy(true)
    setProblem('')
    try {
      const response = await fetch(`/api/documents/${one.id}${path}`, { method })
      if (!response.ok) {
        const { message, advice } = (await response.json()).error
        throw new Error(advice ? `${message}. ${advice}.` : message)
      }
      setSure(false)
      again()
    } catch (error) {
      setProblem(String(error.message || error))
    }
    setBusy(false)
  }

  const readers = Object.entries(one.readers || {})
    .filter(([, count]) => count)
    .map(([reader, count]) => `${labels.readers[reader] || reader} ${count}`)
    .join(' · ')
  const facts = reading
    ? one.pages
      ? labels.progress.replace('{done}', one.pages_done).replace('{pages}', one.pages)
      : labels.waiting
    : one.status === 'gone'
      ? ''
      : (one.pages === 1 ? labels.one_page : labels.pages.replace('{pages}', one.pages))
  return (
    <>
      <div className="perito-document-head">
        <span className="perito-name">{one.name}</span>
        <span className="perito-badge" role="status" data-tone={TONES[one.status]}>
          {labels.statuses[one.status] || one.status}
        </span>
      </div>
      <div className="perito-facts">
        {[facts, readers, all && one.collection !== 'default' ? one.collection : ''].filter(Boolean).join(' · ')}
      </div>
      {reading ? (
        <div
          className="perito-bar"
          role="progressbar"
          aria-label={one.name}
          aria-valuemin={0}
          aria-valuemax={100}
          aria-valuenow={share}
        >
          <div style={{ width: `${Math.max(share, 2)}%` }} />
        </div>
      ) : null}
      {one.error ? <p className="perito-error">{told(one.error)}</p> : null}
      {problem ? <p className="perito-error" role="alert">{problem}</p> : null}
      {one.status === 'gone' ? null : (
        <div className="perito-buttons">
          {one.pages_done ? (
            <button
              type="button"
              className="perito-button"
              aria-expanded={!!pages}
              onClick={() => (pages ? setPages(null) : loadPages())}
            >
              {pages ? labels.hide_pages : labels.show_pages}
            </button>
          ) : null}
          {reading ? null : (
            <button type="button" className="perito-button" disabled={busy} onClick={() => change('/reread', 'POST')}>
              {labels.reread}
            </button>
          )}
          {sure ? (
            <>
              <button
                type="button"
                className="perito-button"
                data-danger="true"
                disabled={busy}
                onClick={() => change('', 'DELETE')}
              >
                {labels.really_delete}
              </button>
              <button type="button" className="perito-button" onClick={() => setSure(false)}>
                {labels.keep}
              </button>
            </>
          ) : (
            <button type="button" className="perito-button" disabled={busy} onClick={() => setSure(true)}>
              {labels.delete}
            </button>
          )}
        </div>
      )}
      {pages ? (
        <ul className="perito-pages" tabIndex={0} aria-label={labels.show_pages}>
          {pages.map((page) => (
            <li key={page.number}>
              <span>{labels.page.replace('{page}', page.number)}</span>
              <span className="perito-badge" data-tone={TONES[page.status] || (page.status === 'failed' ? 'bad' : '')}>
                {labels.page_statuses[page.status] || page.status}
              </span>
              {page.reader !== 'none' ? (
                <span className="perito-facts">
                  {labels.readers[page.reader] || page.reader} · {Math.round(page.confidence * 100)} %
                </span>
              ) : null}
              <span className="perito-facts">{told(page.error || page.receipt?.reason)}</span>
            </li>
          ))}
        </ul>
      ) : null}
    </>
  )
}

function Rejected({ one }) {
  const [password, setPassword] = useState('')
  const [busy, setBusy] = useState(false)
  const [problem, setProblem] = useState('')
  const unlock = async (event) => {
    event.preventDefault()
    setBusy(true)
    setProblem('')
    try {
      const reply = await callAction({ name: 'unlock', payload: { file: one.file, password } })
      const { error, id, name } = reply?.response || {}
      if (error) throw new Error(error)
      updateElement({
        ...props,
        ids: [...(props.ids || []), id],
        names: { ...props.names, [id]: name },
        rejected: (props.rejected || []).filter((other) => other.key !== one.key)
      })
    } catch (error) {
      setProblem(String(error.message || error))
    }
    setBusy(false)
  }
  return (
    <>
      <div className="perito-document-head">
        <span className="perito-name">{one.name}</span>
        <span className="perito-badge" data-tone="bad">{labels.rejected}</span>
      </div>
      <p className="perito-error">{one.error}</p>
      {one.file ? (
        <form className="perito-password" onSubmit={unlock}>
          <input
            type="password"
            autoComplete="off"
            aria-label={labels.password_for.replace('{name}', one.name)}
            placeholder={labels.password}
            value={password}
            onChange={(event) => setPassword(event.target.value)}
          />
          <button type="submit" className="perito-button" disabled={busy || !password}>{labels.unlock}</button>
        </form>
      ) : null}
      {problem ? <p className="perito-error" role="alert">{problem}</p> : null}
    </>
  )
}
